"""What `flagperf doctor` and `flagperf clean` tell: rows of a host, a check, and what was found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from flagperf.errors import ConfigError, FlagperfError

State = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True)
class Row:
    """What one check found on one host, and what to do where all is not well."""

    host: str
    check: str
    state: State
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Finding:
    """What a check gives that did not fail. One with advice is a warning."""

    found: str
    advice: str = ""
    looked: bool = True  # False: there was nothing to look at

    @property
    def state(self) -> State:
        return "skipped" if not self.looked else "warning" if self.advice else "ok"


def failed_row(host: str, check: str, error: FlagperfError) -> Row:
    """The row of an error."""
    problem, advice = getattr(error, "problem", str(error)), getattr(error, "advice", None) or ""
    if isinstance(error, ConfigError):
        problem += f" ({error.key}={error.given})" if error.key else ""
        advice = "\n".join(filter(None, [advice, error.allowed and f"allowed: {error.allowed}"]))
    return Row(host, check, "failed", problem, advice)


Check = Callable[[], Awaitable[Finding]]


async def look(host: str, name: str, check: Check) -> Row:
    """Make a check; its row."""
    try:
        finding = await check()
    except FlagperfError as error:
        return failed_row(host, name, error)
    return Row(host, name, finding.state, finding.found, finding.advice)
