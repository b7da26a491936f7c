"""`flagperf collect RUN_DIR`: brings the logs that a run had to leave on its hosts, and reports it again."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from flagperf import report
from flagperf.cli import trust
from flagperf.cli.cluster import Row, failed_row, print_rows
from flagperf.cli.verbs import usage
from flagperf.errors import ConfigError, FlagperfError, HostError
from flagperf.hosts.connect import transports
from flagperf.results import parts
from flagperf.run.collecting import Place, collect_late, places, rounds
from flagperf.run.console import Terminal
from flagperf.run.folder import is_held
from flagperf.run.pod_logs import collect_pod, pods_of


def main(options: argparse.Namespace) -> int:
    """Print what came from where; then, where something came, the table of results. Returns the exit code."""
    words, is_trusted = trust.trusted(options.arguments)
    if len(words) != 1:
        given = " ".join(options.arguments)
        raise ConfigError("collect takes one run folder", given=given, advice=usage("collect"))
    folder = Path(words[0])
    found = [one for one in rounds(folder) if one.logs]
    if is_held(folder):
        raise ConfigError("this run goes on", given=folder, advice="it collects its logs itself when it ends")
    if not is_trusted:
        files = [file for one in found for file in one.files]
        trust.check("collect", folder, files, trust.of_collecting(found))
    rows = asyncio.run(collect(places(found)))
    if not rows:
        print("nothing is left to collect")
        return 0
    code = print_rows(rows)
    if any(row.state == "ok" for row in rows):
        summaries = report.read_run(folder)
        if not is_trusted:
            trust.check_writers("collect", folder, summaries[0].config)
        Terminal().print(report.terminal_table(summaries))
        report.write_summaries(folder, summaries)
        for path in report.write(folder, summaries):
            print(path)
    return code


async def collect(found: Sequence[Place]) -> list[Row]:
    """Bring what is left of each round, round by round; a row for each host that had some, or could not be asked."""
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
