"""What executing a plan gives. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Failure:
    """Why a round failed: the first cause, not what followed from it."""

    cause: str  # "exit code 1", "signal SIGKILL", "hang: no progress for 60 s", "lost host" …
    phase: str  # connect, check, image, send, start, watch, collect
    host: str
    node_rank: int
    rank: int | None = None
    exit_status: int | None = None
    last_lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = f"rank {self.rank} on {self.host}" if self.rank is not None else self.host
        tail = "".join(f"\n    {line}" for line in self.last_lines)
        return f"{who} (node rank {self.node_rank}): {self.cause}, while in phase '{self.phase}'{tail}"


@dataclass(frozen=True)
class Outcome:
    """What executing a Plan gave. Logs lie in `folder`, one sub-folder a node."""

    status: Literal["finished", "failed", "interrupted"]
    folder: Path
    failure: Failure | None
    exit_statuses: tuple[int | None, ...]  # per node; None: never known
    phases: Mapping[str, Mapping[str, float]]  # node name → phase → seconds
    started: float  # wall clock, seconds since the epoch
    seconds: float
    asked: Mapping[str, Any] = field(default_factory=dict)
