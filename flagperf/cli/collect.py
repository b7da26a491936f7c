"""`flagperf report RUN_DIR collect=true`: fetches the logs that a run left on its hosts."""

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
    """Fetch the logs of a run that are still on its hosts. A row for each host with logs, or that did not answer.

    Raises:
        ConfigError: the run goes on, or another user made the folder, and the user does not trust it.
    """
    to_collect = [round_ for round_ in rounds(folder) if round_.logs]
    if is_held(folder):
        raise ConfigError("this run is still running", given=folder, advice="the run collects its own logs at its end")
    if not is_trusted:
        files = [file for round_ in to_collect for file in round_.files]
        trust.check(VERB, folder, files, trust.of_collecting(to_collect))
    return asyncio.run(_collect(locations(to_collect)))


async def _collect(log_locations: Sequence[LogLocation]) -> list[Row]:
    """Fetch the logs of one round after another."""
    by_round: dict[Path, list[LogLocation]] = {}
    for location in log_locations:
        by_round.setdefault(location.folder.parent, []).append(location)
    return [row for logs in by_round.values() for row in await scheduler(logs[0].cluster.source).collect(logs)]
