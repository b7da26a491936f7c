"""Compares the progress of a round, by the PerfLog of its ranks, with the deadlines of its plan."""

from __future__ import annotations

from collections.abc import Sequence

from flagperf.config.schema.limits import Deadlines
from flagperf.contract.perflog import Event

MEASURED = ("INIT_EVALUATION", "PROBE", "FABRIC", "LINKS", "OPERATOR")


class Watch:
    """The progress of a round so far. All times are seconds of one monotonic clock of the caller.

    Only the first rank's events count as progress, and not its waits for other ranks.
    """

    def __init__(self, ranks: Sequence[int], deadlines: Deadlines, started: float) -> None:
        self.deadlines, self.started = deadlines, started
        self.first = ranks[0]
        self.silent = set(ranks)  # ranks without SUBMIT_INFO
        self.milestones: dict[str, float] = {}  # "submitted", "training", "first step" → time
        self._progress = started  # last sign of progress
        self._measured = started  # last sign of what may take long before a step: an evaluation, or a probe

    def observe(self, rank: int, event: Event, now: float) -> None:
        """Take note of an event of a rank."""
        self.silent.discard(rank)
        if not self.silent:
            self._reach("submitted", now)
        if rank != self.first or event.event == "WAITING":
            return
        self._progress = now
        if event.event == "TRAIN_START":
            self._reach("training", now)
        elif event.event == "STEP_END":
            self._reach("first step", now)
        elif event.event in MEASURED or event.value.get("phase") == "evaluate":
            self._measured = now

    def overdue(self, now: float) -> str | None:
        """The passed deadline as the cause of a failure; None: no deadline has passed."""
        if self.silent:
            ranks = ", ".join(str(rank) for rank in sorted(self.silent))
            named = f"rank {ranks}" if len(self.silent) == 1 else f"ranks {ranks}"
            return self._past("start", now - self.started, f"no sign of life from {named} within")
        if "first step" not in self.milestones:
            start = max(self.milestones["submitted"], self._measured)
            return self._past("first_step", now - start, "no first step within")
        return self._past("stall", now - self._progress, "hang: no progress for")

    def _past(self, deadline: str, seconds: float, problem: str) -> str | None:
        limit: float = getattr(self.deadlines, deadline)
        return f"{problem} {limit:g} s (deadlines.{deadline})" if seconds > limit else None

    def _reach(self, milestone: str, now: float) -> None:
        self.milestones.setdefault(milestone, now)
