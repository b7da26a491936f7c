"""What the framework-free part of the trainer calls. Its import brings in Paddle, which takes seconds."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Mapping
from typing import Any

import paddle

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.finish import finished
from flagperf.trainer.paddle.build import build
from flagperf.trainer.paddle.built import built
from flagperf.trainer.paddle.data import read_first_samples
from flagperf.trainer.paddle.finish import own
from flagperf.trainer.paddle.loop import Training

__all__ = ["read_first_samples", "train"]


def train(config: Mapping[str, Any], perflog: PerfLog, began: float) -> None:
    """Train on this rank, and log FINISHED. `began`: when the process began, by time.perf_counter.

    Raises:
        ConfigError: the configuration cannot be used here.
        TrainingError: the loss became NaN or infinite.
    """
    leave_signals()
    parts = build(config)
    perflog.log("BUILT", built(parts))
    trained = Training(parts, perflog).run()
    perflog.log("FINISHED", finished(config, parts.settings, parts.world, trained, own(parts, trained), began))
    parts.world.disconnect()
    trained.check_loss(parts.world.rank)


def leave_signals() -> None:
    """Let signals do what they do in any Python: Paddle's own handlers hide where a rank stands that is aborted."""
    paddle.disable_signal_handler()
    if "PYTHONFAULTHANDLER" in os.environ:
        faulthandler.disable()  # it believes that its handlers are still there
        faulthandler.enable()
