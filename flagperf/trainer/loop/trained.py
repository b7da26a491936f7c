"""The course and the measurements of a training on one rank."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from flagperf.contract.target import Target
from flagperf.errors import TrainingError
from flagperf.trainer.loop.agenda import Position

log = logging.getLogger(__name__)

FOLLOW_DELAY = 0.5  # seconds that other ranks wait, so that the launcher sees the rank at fault end first


class Diverged(NamedTuple):
    """The first step in which a rank's own loss was NaN or infinite, and that rank; None: several ranks at once."""

    step: int
    rank: int | None

    @classmethod
    def of(cls, steps: Sequence[int | None], data_rank: Callable[[int], int]) -> Diverged | None:
        """From the first such step of each rank. Returns None where no rank has one.

        Args:
            data_rank: rank → its data rank. Of ranks with the same data rank, the first counts.
        """
        known = {rank: step for rank, step in enumerate(steps) if step is not None}
        if not known:
            return None  # only the sum over the ranks was infinite
        first = min(known.values())
        ranks = [rank for rank, step in known.items() if step == first]
        return cls(first, ranks[0] if len(set(map(data_rank, ranks))) == 1 else None)


@dataclass(frozen=True)
class FrameworkFigures:
    """Figures of this rank that only the framework knows, after the training."""

    parameters: int
    parameters_checksum: str
    peak_memory: float  # GiB
    peak_memory_kind: str
    forward: Mapping[str, Any]  # operations of a forward pass: per_unit, per_sample or note; example, example_note
    parameters_group: int = 0  # ranks with the same number hold the same parameters
    peak_allocated: float | None = None  # GiB of peak_memory that tensors held; None: not known
    frozen_checksum: str | None = None  # of the frozen weights of a network with adapters
    formula: Mapping[str, float] = field(default_factory=dict)  # operations of a unit's training by the field's formula


@dataclass(frozen=True)
class Trained:
    """One training on one rank, from TRAIN_START to TRAIN_END. All times in seconds."""

    position: Position  # where it ended
    resumed_from: int  # step; 0 where it did not resume
    stop_reason: str | None
    target: Target | None  # None: it claims no target
    metrics: Mapping[str, float]  # of the last evaluation
    loss: float | None  # mean over the job, in the last logged step or the first where it was not finite
    loss_step: int  # the step of that loss
    diverged: Diverged | None  # where the loss first was not finite
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
    communication_wait: float | None  # for other ranks; None: the strategy or the framework does not measure it
    clock: str  # the clock of the times above
    comparisons: Mapping[str, Any] = field(default_factory=dict)  # figures of comparisons with the case's own network

    def steady(self, warmup_steps: int) -> tuple[int, Sequence[float]]:
        """Units, and the time of each step, after the warm-up."""
        times = self.step_times[warmup_steps:]
        if not times:
            return 0, times
        return self.units - (self.units_by_step[warmup_steps - 1] if warmup_steps else 0), times

    @property
    def diverged_step(self) -> int | None:
        """The first step known whose loss was NaN or infinite; it need not be logged. None: all losses were finite."""
        if self.loss is None or math.isfinite(self.loss):
            return None
        return self.diverged.step if self.diverged else self.loss_step

    def check_loss(self, rank: int) -> None:
        """Raise TrainingError where the loss became NaN or infinite, first on the rank where it began."""
        if (step := self.diverged_step) is None:
            return
        first = self.diverged.rank if self.diverged else None
        if first in (None, rank):
            raise TrainingError(f"training diverged: the loss was {self.loss} at step {step}")
        follow(f"training diverged: the loss of rank {first} was {self.loss} at step {step}")


def follow(message: str) -> NoReturn:
    """Fail because another rank fails, after that rank. Raises TrainingError."""
    log.error(message)  # now, since this rank may be stopped when that rank has ended
    time.sleep(FOLLOW_DELAY)
    raise TrainingError(message)
