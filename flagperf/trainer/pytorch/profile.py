"""Traces some steps of rank 0, for chrome://tracing or ui.perfetto.dev."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from torch import profiler
from typing_extensions import override

from flagperf.trainer.loop.clock import BOOKS
from flagperf.trainer.loop.engine import Resumed
from flagperf.trainer.pytorch.engine import TorchEngine

log = logging.getLogger(__name__)

STEPS = 3  # traced steps
FILE = "trace.json"


class ProfiledEngine(TorchEngine):
    """Traces the first steps after the warm-up, which then take longer.

    The trace lies beside the log of the rank. A training that ends earlier leaves a shorter trace.
    """

    @override
    def resume(self) -> Resumed:
        resumed = super().resume()
        plan = profiler.schedule(wait=self.settings.warmup_steps, warmup=1, active=STEPS, repeat=1)
        self.profiler = profiler.profile(schedule=plan, on_trace_ready=_write, record_shapes=True)
        self.profiler.start()
        self.first = resumed.position.step + 1
        return resumed

    @override
    def step(self, number: int) -> None:
        if number > self.first:
            self.profiler.step()  # ends the step before
            self.clock.lap(BOOKS)
        super().step(number)

    @override
    def close(self) -> None:
        self.profiler.stop()
        super().close()


def _write(traced: profiler.profile) -> None:
    path = Path(os.environ.get("FLAGPERF_LOG_DIR", "."), FILE)
    traced.export_chrome_trace(str(path))
    log.info("a trace of steps is in %s", path)
