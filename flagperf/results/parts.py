"""What each node of a round says of its end, where nodes were started by hand; and the round that they make together.

A node leaves outcome.json beside its logs. Once the folders of all nodes lie in one, the round is what they say.
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
from flagperf.results.rank_log import node_folders
from flagperf.results.result import read_json, write_json

FILE = "outcome.json"  # of a node

Status = Literal["finished", "failed", "interrupted", "unfinished"]
WORST: tuple[Status, ...] = ("failed", "interrupted", "unfinished", "finished")


@dataclass(frozen=True)
class Part:
    """How a node's part of a round, or all parts together, ended."""

    status: Status
    failure: Failure | None
    started: float  # seconds since the epoch, by the host's clock
    seconds: float
    phases: Mapping[str, Mapping[str, float]]  # node → phase → seconds


def write(outcome: Outcome, node_folder: Path) -> None:
    """Write what a node's part came to, beside its logs."""
    part = Part(outcome.status, outcome.failure, outcome.started, outcome.seconds, outcome.phases)
    node_folder.mkdir(parents=True, exist_ok=True)
    write_json(dataclasses.asdict(part), node_folder / FILE)


def together(round_folder: Path, nnodes: int) -> Part | None:
    """What the nodes of a round say together; None where none of them was started by hand.

    The round failed as the first of its failed nodes did, and is unfinished while one has not said how it ended.

    Raises:
        ConfigError: an outcome cannot be read.
    """
    folders = [folder for _, _, folder in node_folders(round_folder)]
    parts = [_read(folder / FILE) for folder in folders if (folder / FILE).exists()]
    if not parts:
        return None
    said = [part.status for part in parts] + (["unfinished"] if len(parts) < nnodes else [])
    failures = sorted((part for part in parts if part.failure), key=lambda part: part.started + part.seconds)
    began = min(part.started for part in parts)
    return Part(
        status=next(status for status in WORST if status in said),
        failure=failures[0].failure if failures else None,
        started=began,
        seconds=max(part.started + part.seconds for part in parts) - began,
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
