"""How each node's part of a round ended, where nodes were started by hand, and how the round ended.

Each node writes outcome.json beside its logs. The parts are joined once the folders of all nodes lie in one folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flagperf.contract.build import build
from flagperf.contract.outcome import Failure, Outcome
from flagperf.errors import ConfigError
from flagperf.results.json_record import read_json, write_json
from flagperf.results.rank_log import node_folders

FILE = "outcome.json"  # of a node

Status = Literal["finished", "failed", "interrupted", "unfinished"]
WORST: tuple[Status, ...] = ("failed", "interrupted", "unfinished", "finished")


@dataclass(frozen=True)
class Part:
    """How a node's part of a round ended, or all parts joined."""

    status: Status
    failure: Failure | None
    started: float  # seconds since the epoch, by the host's clock
    seconds: float
    phases: Mapping[str, Mapping[str, float]]  # node → phase → seconds


def write(outcome: Outcome, node_folder: Path) -> None:
    """Write outcome.json of a node's part, beside its logs."""
    part = Part(outcome.status, outcome.failure, outcome.started, outcome.seconds, outcome.phases)
    node_folder.mkdir(parents=True, exist_ok=True)
    write_json(dataclasses.asdict(part), node_folder / FILE)


def together(round_folder: Path, nnodes: int) -> Part | None:
    """The parts of all nodes, joined; None where no node was started by hand.

    The failure is that of the node that failed first. The round is unfinished while a node has no outcome.

    Raises:
        ConfigError: an outcome cannot be read.
    """
    folders = [folder for _, _, folder in node_folders(round_folder)]
    parts = [_read(folder / FILE) for folder in folders if (folder / FILE).exists()]
    if not parts:
        return None
    statuses = [part.status for part in parts] + (["unfinished"] if len(parts) < nnodes else [])
    failures = sorted((part for part in parts if part.failure), key=lambda part: part.started + part.seconds)
    started = min(part.started for part in parts)
    return Part(
        status=next(status for status in WORST if status in statuses),
        failure=failures[0].failure if failures else None,
        started=started,
        seconds=max(part.started + part.seconds for part in parts) - started,
        phases={node: phases for part in parts for node, phases in part.phases.items()},
    )


def _read(path: Path) -> Part:
    record: dict[str, Any] = read_json(path)
    try:
        return build(
            Part, {field.name: record[field.name] for field in dataclasses.fields(Part)}, FILE, lambda _: str(path)
        )
    except KeyError as error:
        raise ConfigError("not the outcome of a node", where=str(path), given=str(error)) from None
