"""What the framework-free part of the trainer calls. Its import brings in torch and the loop, which takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.perflog import PerfLog
from flagperf.trainer.finish import finished
from flagperf.trainer.pytorch.built import built
from flagperf.trainer.pytorch.by_version import fill_in
from flagperf.trainer.pytorch.datasets import read_first_samples
from flagperf.trainer.pytorch.loop import Training
from flagperf.trainer.pytorch.parts import build_parts

fill_in()  # before a case is imported

__all__ = ["read_first_samples", "train"]


def train(config: Mapping[str, Any], perflog: PerfLog, began: float) -> None:
    """Train on this rank, and log FINISHED. `began`: when the process began, by time.perf_counter.

    Raises:
        ConfigError: the configuration cannot be used here.
        TrainingError: the loss became NaN or infinite.
    """
    parts = build_parts(config)
    perflog.log("BUILT", built(parts))
    trained = Training(parts, perflog).run()
    from flagperf.trainer.pytorch.finish import own  # imported late: the first step should not wait for it

    perflog.log("FINISHED", finished(config, parts.settings, parts.world, trained, own(parts), began))
    parts.world.disconnect()
    trained.check_loss()
