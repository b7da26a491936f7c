"""What executing a plan gives. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from flagperf.errors import ConfigError, FlagperfError, HostError, with_details
from flagperf.hosts.transport import Outage
from flagperf.plain import plain


@dataclass(frozen=True)
class Failure:
    """Why a round failed or could not start: the first cause, not what followed from it.

    Host and rank are those that are known to be at fault; None where nobody is.
    """

    cause: str  # "exit code 1", "signal SIGKILL", "hang: no progress for 60 s", "lost host" …
    host: str | None = None
    node_rank: int | None = None
    rank: int | None = None
    phase: str | None = None  # start, watch, stop, collect, clean; None: it could not start
    exit_status: int | None = None  # of the rank, or of the ranks' launcher; None: unknown, or ended by a signal
    signal: str | None = None  # that ended it: "SIGKILL"
    last_lines: tuple[str, ...] = ()  # of a log
    details: Mapping[str, str] = field(default_factory=dict)  # where, key, given, allowed, do: why it could not start

    @property
    def sentence(self) -> str:
        """ "rank 1 on node2 (node rank 0): signal SIGKILL, while in phase 'watch'" """
        who = f"rank {self.rank} on {self.host}" if self.rank is not None else self.host
        node = f" (node rank {self.node_rank})" if self.node_rank is not None else ""
        during = f", while in phase '{self.phase}'" if self.phase else ""
        return plain((f"{who}{node}: " if who else "") + self.cause + during)

    def __str__(self) -> str:
        return plain(with_details(self.sentence, self.details) + "".join(f"\n    {line}" for line in self.last_lines))


def refusal(error: FlagperfError) -> Failure:
    """Why a round could not start."""
    if isinstance(error, HostError):
        return Failure(error.problem, host=error.host, details=error.details)
    if isinstance(error, ConfigError):
        return Failure(error.problem, details=error.details)
    return Failure(str(error))


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
    outages: tuple[Outage, ...] = ()  # of hosts that came back
