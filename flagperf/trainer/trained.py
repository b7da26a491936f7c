"""What a training did and measured on one rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flagperf.errors import TrainingError
from flagperf.target import Target
from flagperf.trainer.agenda import Position


@dataclass(frozen=True)
class Trained:
    """One training on one rank, from TRAIN_START to TRAIN_END. All times in seconds."""

    position: Position  # where it ended
    resumed_from: int  # step; 0 where it did not resume
    stop_reason: str | None
    target: Target | None  # that it was to reach
    metrics: Mapping[str, float]  # of the last evaluation
    loss: float | None  # mean over the job, in the last logged step or the first where it was not finite
    loss_step: int  # the step of that loss
    loss_checksum: int  # of all logged losses
    sample_data: bool

    samples: int  # of this rank, in this process
    units: int
    units_by_step: Sequence[int]  # up to the end of each step

    began: float  # TRAIN_START, by time.perf_counter
    train_time: float
    wall_time: float  # the same time by the wall clock
    step_times: Sequence[float]
    compute_time: float
    data_wait: float
    eval_time: float
    checkpoint_time: float
    clock: str  # which clock measured the four
    comparisons: Mapping[str, Any] = field(default_factory=dict)  # figures of those with the case's own network

    def steady(self, warmup_steps: int) -> tuple[int, Sequence[float]]:
        """Units, and the time of each step, after the warm-up."""
        times = self.step_times[warmup_steps:]
        if not times:
            return 0, times
        return self.units - (self.units_by_step[warmup_steps - 1] if warmup_steps else 0), times

    def check_loss(self) -> None:
        """Raise TrainingError where the loss became NaN or infinite."""
        if self.loss is not None and not math.isfinite(self.loss):
            raise TrainingError(f"training diverged: the loss was {self.loss} at step {self.loss_step}")
