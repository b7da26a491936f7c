"""A trace of some steps of rank 0, for chrome://tracing or ui.perfetto.dev: where the time of a step goes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import profiler

from flagperf.trainer.loop.clock import BOOKS, Clock
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.step import Stepper

log = logging.getLogger(__name__)

STEPS = 3  # that are traced
FILE = "trace.json"


class ProfiledStepper(Stepper):
    """Makes steps, and traces some of them, the first after the warm-up. What is traced takes longer.

    The trace lies beside the log of the rank. A training that ends sooner leaves what was traced up to there.
    """

    def __init__(self, parts: Parts, batches: Iterator[Any], clock: Clock) -> None:
        super().__init__(parts, batches, clock)
        plan = profiler.schedule(wait=parts.settings.warmup_steps, warmup=1, active=STEPS, repeat=1)
        self.profiler = profiler.profile(schedule=plan, on_trace_ready=_write, record_shapes=True)
        self.profiler.start()

    def step(self, number: int) -> None:
        super().step(number)
        self.profiler.step()
        self.clock.lap(BOOKS)

    def close(self) -> None:
        self.profiler.stop()


def _write(traced: profiler.profile) -> None:
    path = Path(os.environ.get("FLAGPERF_LOG_DIR", "."), FILE)
    traced.export_chrome_trace(str(path))
    log.info("a trace of steps is in %s", path)


def stepper(parts: Parts, batches: Iterator[Any], clock: Clock) -> Stepper:
    """What makes the steps of this rank: with the setting `profile`, rank 0 traces some."""
    kind = ProfiledStepper if parts.settings.profile and parts.world.rank == 0 else Stepper
    return kind(parts, batches, clock)
