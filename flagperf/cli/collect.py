"""`flagperf report RUN_DIR collect=true`: brings the logs that a run had to leave on its hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from flagperf.cli import trust
from flagperf.errors import ConfigError
from flagperf.hosts.findings import Row
from flagperf.run.collecting import LogLocation, locations, rounds
from flagperf.run.folder import is_held
from flagperf.schedulers.interface import scheduler

VERB = "report"


def collect(folder: Path, is_trusted: bool) -> list[Row]:
    """Bring what is left of a run; a row for each host that had some, or could not be asked.

    Raises:
        ConfigError: the run goes on, or another user made the folder, which is not trusted.
    """
    found = [one for one in rounds(folder) if one.logs]
    if is_held(folder):
        raise ConfigError("this run goes on", given=folder, advice="it collects its logs itself when it ends")
    if not is_trusted:
        files = [file for one in found for file in one.files]
        trust.check(VERB, folder, files, trust.of_collecting(found))
    return asyncio.run(_collect(locations(found)))


async def _collect(found: Sequence[LogLocation]) -> list[Row]:
    """Round by round."""
    by_round: dict[Path, list[LogLocation]] = {}
    for location in found:
        by_round.setdefault(location.folder.parent, []).append(location)
    return [row for some in by_round.values() for row in await scheduler(some[0].cluster.source).collect(some)]
