"""Findings about a host, and actions on a host, as rows of a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from flagperf.errors import THIS_MACHINE, ConfigError, FlagperfError


@dataclass(frozen=True)
class Row:
    """The finding of one check on one host, with advice."""

    host: str
    check: str
    state: Literal["ok", "warning", "failed", "skipped"]
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Finding:
    """The finding of a check that did not fail. A finding with advice is a warning."""

    text: str
    advice: str = ""
    skipped: bool = False  # True: the check had nothing to look at

    @property
    def state(self) -> Literal["ok", "warning", "skipped"]:
        """The state of the row."""
        return "skipped" if self.skipped else "warning" if self.advice else "ok"


Check = Callable[[], Awaitable[Finding]]


async def look(host: str, name: str, check: Check) -> Row:
    """The row of a check."""
    try:
        finding = await check()
    except FlagperfError as error:
        return failed_row(host, name, error)
    return Row(host, name, finding.state, finding.text, finding.advice)


def failed_row(host: str, check: str, error: FlagperfError) -> Row:
    """The row of an error."""
    problem, advice = getattr(error, "problem", str(error)), getattr(error, "advice", None) or ""
    if isinstance(error, ConfigError):
        problem = f"{error.where}: {problem}" if error.where == THIS_MACHINE else problem
        problem += f" ({error.key}={error.given})" if error.key else ""
        advice = "\n".join(filter(None, [advice, error.allowed and f"allowed: {error.allowed}"]))
    return Row(host, check, "failed", problem, advice)
