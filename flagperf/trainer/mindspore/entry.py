"""What the framework-free part of the trainer calls. Its import brings in MindSpore, which takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.finish import finished
from flagperf.trainer.mindspore.build import build
from flagperf.trainer.mindspore.built import built
from flagperf.trainer.mindspore.data import read_first_samples
from flagperf.trainer.mindspore.finish import own
from flagperf.trainer.mindspore.loop import Training

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
    parts.world.leave()  # rank 0 serves the others until all have their figures
    trained.check_loss(parts.world.rank)
