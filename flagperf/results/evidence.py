"""The evidence from which a round is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flagperf.contract.extent import Extent, counts_of
from flagperf.contract.outcome import Failure
from flagperf.contract.records import Achievable
from flagperf.contract.target import Target
from flagperf.results.rank_log import RankLog

TRAINING_LIMITS = {  # configuration key → the FINISHED field that it limits
    "max_steps": "global_steps",
    "max_epochs": "epochs",
    "max_samples_termination": "global_samples",
    "max_time": "raw_train_time",
}


@dataclass(frozen=True)
class Evidence:
    """All facts about a round that the rules of the verdict read."""

    status: str
    world_size: int
    logs: Sequence[RankLog]
    failure: Failure | None = None
    round: int = 1
    seconds: float | None = None  # the round by the launcher's clock
    trained: float | None = None  # from TRAIN_START to TRAIN_END by the launcher's clock; None: not recorded
    unseen: float = 0.0  # seconds in which the launcher did not reach a host
    limits: Mapping[str, float] = field(default_factory=dict)  # those of TRAINING_LIMITS that are set
    user_limits: Sequence[str] = ()  # those of TRAINING_LIMITS that the user set, not the case
    target: Target | None = None
    memory_gib: float | None = None  # of one device
    config: Mapping[str, Any] = field(default_factory=dict)  # the whole resolved configuration
    extent: Extent | None = None  # of the case's data; None: not known, or not required
    achievable: Achievable | None = None  # the product's limit

    @property
    def finished(self) -> Mapping[str, Any]:
        """FINISHED of the lowest rank that logged it; empty when none did."""
        return next((log.finished for log in self.logs if log.finished is not None), {})

    @property
    def built(self) -> Mapping[int, Mapping[str, Any]]:
        """Rank → value of its BUILT, of the ranks that logged one."""
        return {log.rank: events[-1].value for log in self.logs if (events := log.all("BUILT"))}

    @property
    def other_data(self) -> str:
        """How the data differs from that of the case, in words; "" where it does not, and for sample data."""
        if self.extent is None or self.finished.get("sample_data"):
            return ""
        differences = (self.extent.differences(counts_of(built)) for built in self.built.values())
        return next(filter(None, differences), "")

    @property
    def resume_notes(self) -> tuple[str, ...]:
        """Notes of the ranks on the checkpoints from which they resumed, each note once."""
        of_ranks = (event.value.get("resume_notes") or () for log in self.logs for event in log.all("INIT_END"))
        return tuple(dict.fromkeys(note for notes in of_ranks for note in notes))

    def number(self, name: str) -> float | None:
        """A figure of FINISHED; None when it is absent."""
        value = self.finished.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def per_rank(self, name: str) -> dict[int, Any]:
        """One field of FINISHED's `ranks`, of the ranks that have it."""
        ranks = self.finished.get("ranks") or ()
        return {entry["rank"]: entry[name] for entry in ranks if entry.get(name) is not None}
