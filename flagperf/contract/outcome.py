"""The outcome of executing a plan: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from typing_extensions import Annotated

from flagperf.contract.fields import Field
from flagperf.contract.perflog import LATEST
from flagperf.errors import ConfigError, FlagperfError, HostError, InterruptedRunError, with_details
from flagperf.plain import plain

Moment = Annotated[float, Field(float, low=0, high=LATEST / 1000)]  # seconds since the epoch


@dataclass(frozen=True)
class Outage:
    """A time during which a host could not be reached, and after which it could again."""

    host: str
    began: Moment  # when it was noticed, by the launcher's clock
    seconds: float  # from then to the new connection


@dataclass(frozen=True)
class Failure:
    """Why a round failed or could not start: the first cause, not its consequences.

    Host and rank are those that are known to be at fault; None where none is known.
    """

    cause: str  # "exit code 1", "signal SIGKILL", "hang: no progress for 60 s", "lost host" …
    host: str | None = None
    node_rank: int | None = None
    rank: int | None = None
    phase: str | None = None  # start, training, stop, collect, clean; None: it could not start
    exit_status: int | None = None  # of the rank, or of the ranks' launcher; None: unknown, or ended by a signal
    signal: str | None = None  # that ended it: "SIGKILL"
    last_lines: tuple[str, ...] = ()  # of a log
    details: Mapping[str, str] = field(default_factory=dict)  # where, key, given, allowed, do: of the refused value

    @property
    def sentence(self) -> str:
        """ "rank 1 on node2 (node rank 0): signal SIGKILL, during training" """
        subject = f"rank {self.rank} on {self.host}" if self.rank is not None else self.host
        node = f" (node rank {self.node_rank})" if self.node_rank is not None else ""
        during = f", during {self.phase}" if self.phase else ""
        return plain((f"{subject}{node}: " if subject else "") + self.cause + during)

    @property
    def line(self) -> str:
        """One line: the problem, then the key that was refused, and the file that set it.

        A sentence that ends in a colon goes on: "2 hosts cannot be used, in phase 'connect': h1: no answer".
        """
        first, *more = self.sentence.splitlines()
        sentence = " ".join([first, *more[:1]]) if first.endswith(":") else first
        key, given = self.details.get("key"), self.details.get("given")
        if key is None:
            return sentence
        value = f"={given.splitlines()[0]}" if given else ""
        return f"{sentence}: {key}{value} ({self.details.get('where', 'unknown')})"

    def after(self, word: str) -> str:
        """The line behind a word for the end of the round, such as "failed"; only the line where the cause says it."""
        return self.line if self.cause.startswith(InterruptedRunError.word) else f"{word}: {self.line}"

    @property
    def is_refusal(self) -> bool:
        """Whether the cause is a value that the user wrote."""
        return "where" in self.details

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
    """The outcome of executing a Plan. Logs lie in `folder`, one sub-folder a node."""

    status: Literal["finished", "failed", "interrupted"]
    folder: Path
    failure: Failure | None
    exit_statuses: tuple[int | None, ...]  # per node; None: never known
    phases: Mapping[str, Mapping[str, float]]  # node name → phase → seconds
    started: float  # wall clock, seconds since the epoch
    seconds: float
    trained: float | None = None  # from TRAIN_START to TRAIN_END of rank 0, as the launcher saw them
    outages: tuple[Outage, ...] = ()  # of hosts that came back
