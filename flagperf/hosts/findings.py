"""What was found on a host, or done there, as a row of a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from flagperf.errors import THIS_MACHINE, ConfigError, FlagperfError


@dataclass(frozen=True)
class Row:
    """What one check found on one host, and what to do about it."""

    host: str
    check: str
    state: Literal["ok", "warning", "failed", "skipped"]
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Finding:
    """What a check found that did not fail. A finding with advice is a warning."""

    found: str
    advice: str = ""
    looked: bool = True  # False: there was nothing to look at

    @property
    def state(self) -> Literal["ok", "warning", "skipped"]:
        return "skipped" if not self.looked else "warning" if self.advice else "ok"


Check = Callable[[], Awaitable[Finding]]


async def look(host: str, name: str, check: Check) -> Row:
    """Make a check; its row."""
    try:
        finding = await check()
    except FlagperfError as error:
        return failed_row(host, name, error)
    return Row(host, name, finding.state, finding.found, finding.advice)


def failed_row(host: str, check: str, error: FlagperfError) -> Row:
    """The row of an error."""
    problem, advice = getattr(error, "problem", str(error)), getattr(error, "advice", None) or ""
    if isinstance(error, ConfigError):
        problem = f"{error.where}: {problem}" if error.where == THIS_MACHINE else problem
        problem += f" ({error.key}={error.given})" if error.key else ""
        advice = "\n".join(filter(None, [advice, error.allowed and f"allowed: {error.allowed}"]))
    return Row(host, check, "failed", problem, advice)
