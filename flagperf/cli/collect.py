"""`flagperf report RUN_DIR collect=true`: brings the logs that a run had to leave on its hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from flagperf.cli import trust
from flagperf.cli.cluster import Row, failed_row
from flagperf.errors import ConfigError, FlagperfError, HostError
from flagperf.hosts.connect import transports
from flagperf.results import parts
from flagperf.run.collecting import Place, collect_late, places, rounds
from flagperf.run.folder import is_held
from flagperf.run.pod_logs import collect_pod, pods_of

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
    return asyncio.run(_collect_rounds(places(found)))


async def _collect_rounds(found: Sequence[Place]) -> list[Row]:
    """Round by round."""
    by_round: dict[Path, list[Place]] = {}
    for place in found:
        by_round.setdefault(place.folder.parent, []).append(place)
    return [row for some in by_round.values() for row in await _collect_round(some)]


async def _collect_round(found: Sequence[Place]) -> list[Row]:
    if found[0].cluster.kubernetes:
        return await _collect_pods([place for place in found if not (place.folder / parts.FILE).exists()])
    return [row for place in found for row in await _collect(place)]


async def _collect_pods(missing: Sequence[Place]) -> list[Row]:
    """What the pods of a round have printed. They are asked one after another, as each may tell megabytes."""
    rows: list[Row] = []
    pods = await pods_of(missing) if missing else {}
    for place in missing:
        name = place.node.name
        try:
            if name not in pods:
                raise HostError(
                    name, "it has no pod", advice="apply the manifests; a pod that was removed tells nothing"
                )
            outcome = await collect_pod(place, pods[name])
        except FlagperfError as error:
            rows.append(failed_row(name, "collect", error))
            continue
        parts.write(outcome, place.folder)
        if outcome.failure and outcome.failure.phase == "collect":
            rows.append(Row(name, "collect", "failed", outcome.failure.cause))
        else:
            rows.append(Row(name, "collect", "ok", f"what {pods[name].name} printed is in {place.folder}"))
    return rows


async def _collect(place: Place) -> list[Row]:
    try:
        (transport,) = transports([place.node], place.cluster, place.connect)
        async with transport:
            done = await collect_late(place, transport)
    except FlagperfError as error:
        return [failed_row(place.node.name, "collect", error)]
    return [Row(place.node.name, "collect", "ok", done)] if done else []
