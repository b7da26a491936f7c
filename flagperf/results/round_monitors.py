"""The monitor logs of all nodes of a round → the figures of each node, and the energy of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.sys_info import clock_offset
from flagperf.results.monitors import job_energy, summarize
from flagperf.results.rank_log import RankLog, node_folders
from flagperf.results.used_devices import used_devices

NO_LOG = {"not_available": "there is no log of it"}


def round_monitors(
    folder: Path, logs: Sequence[RankLog], config: Mapping[str, Any], samples: float | None
) -> dict[str, Any]:
    """The figures of the training's time: `nodes`, per node and monitor, and `energy`, of the whole job.

    Args:
        folder: the round's folder.
        logs: of its ranks; the first one says when the training started and ended.
        config: the configuration of the job.
        samples: that the job trained; None: not known.
    """
    marks = {event.event: event.time_ms / 1000 for log in logs[:1] for event in log.events}
    if "TRAIN_START" not in marks:
        return {}
    started, ended = marks["TRAIN_START"], marks.get("TRAIN_END", max(marks.values()))
    visible = {log.node_rank: event.value.get("visible_devices") for log in logs for event in log.all("SUBMIT_INFO")}
    nodes = {
        path.name: _node_monitors(path, started, ended, config, visible.get(node_rank))
        for _, node_rank, path in node_folders(folder)
    }
    names = sorted({name for node in nodes.values() for name in node})
    nodes = {path: {name: node.get(name, NO_LOG) for name in names} for path, node in nodes.items()}
    return {"nodes": nodes, "energy": job_energy(nodes, samples)} if any(nodes.values()) else {}


def _node_monitors(
    folder: Path, started: float, ended: float, config: Mapping[str, Any], visible: str | None
) -> dict[str, Any]:
    """The figures of one node. Devices count only where the devices of the job are known."""
    ahead = clock_offset(folder)  # the logs have the node's own time
    try:
        devices = used_devices(config, visible)
    except ValueError as error:
        reason = {"not_available": f"the devices of the job are not known: {error}"}
        return summarize(folder, started + ahead, ended + ahead, devices=()) | {config["vendor"]["name"]: reason}
    return summarize(folder, started + ahead, ended + ahead, devices)
