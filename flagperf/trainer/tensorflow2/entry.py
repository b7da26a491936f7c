"""What the framework-free part of the trainer calls. Its import brings in TensorFlow, which takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.finish import finished
from flagperf.trainer.tensorflow2.build import build
from flagperf.trainer.tensorflow2.built import built
from flagperf.trainer.tensorflow2.data import read_first_samples
from flagperf.trainer.tensorflow2.finish import own
from flagperf.trainer.tensorflow2.loop import Training

__all__ = ["read_first_samples", "train"]


def train(config: Mapping[str, Any], perflog: PerfLog, began: float) -> None:
    """Train on this rank, and log FINISHED. `began`: when the process began, by time.perf_counter.

    Raises:
        ConfigError: the configuration cannot be used here.
        TrainingError: the loss became NaN or infinite.
    """
    parts = build(config)
    perflog.log("BUILT", built(parts))
    trained = Training(parts, perflog).run()
    perflog.log("FINISHED", finished(config, parts.settings, parts.world, trained, own(parts, trained), began))
    parts.world.leave()  # all have their figures
    trained.check_loss(parts.world.rank)
