"""Measures the phases of a round on a node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from flagperf.contract.perflog import Event

MILESTONES = {  # event → phase that it ends
    "SUBMIT_INFO": "launch",
    "INIT_START": "imports",
    "TRAIN_START": "init",
    "STEP_END": "first_step",
}


class PhaseTimes:
    """Seconds of each phase. The launcher times its own phases; events of the first rank time the ranks' phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.trained: float | None = None  # seconds between its TRAIN_START and TRAIN_END, by the launcher's clock
        self._train_start: float | None = None
        self._launched = 0.0
        self._milestone_ms = 0.0

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the block's seconds to the phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.monotonic() - began

    def launched(self) -> None:
        """Note the start of the ranks' launcher."""
        self._launched = time.monotonic()

    @property
    def starting(self) -> str:
        """The current phase of the node's first rank until its first step; then "training"."""
        return next((phase for phase in MILESTONES.values() if phase not in self.seconds), "training")

    def observe(self, event: Event) -> None:
        """Take note of an event of the node's first rank."""
        if event.event == "INIT_END" and "rendezvous" in event.value:
            self.seconds["rendezvous"] = event.value["rendezvous"]  # a part of init
            self._milestone_ms += 1000 * event.value["rendezvous"]
        if event.event == "TRAIN_START":
            self._train_start = time.monotonic()
        elif event.event == "TRAIN_END" and self._train_start is not None:
            self.trained = time.monotonic() - self._train_start
        phase = MILESTONES.get(event.event)
        if phase is None or phase in self.seconds:
            return
        if phase == "launch":  # the host's clock may differ from the launcher's
            self.seconds[phase] = time.monotonic() - self._launched
        else:
            self.seconds[phase] = max(0.0, event.time_ms - self._milestone_ms) / 1000
        self._milestone_ms = event.time_ms
