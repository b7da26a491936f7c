"""A check of `flagperf doctor`, and what it finds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from flagperf.cli.cluster import Row, failed_row
from flagperf.errors import FlagperfError


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
