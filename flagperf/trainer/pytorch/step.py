"""One optimizer step: its micro steps, the update of the weights, and what a record says of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from time import time
from typing import Any

from torch import Tensor

from flagperf.trainer.agenda import Position
from flagperf.trainer.clock import COMPUTE, DATA, STEP, Clock
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.records import Step


class Stepper:
    """Makes optimizer steps. What the last one left stays here until the next: only a few of them are recorded.

    Attributes:
        distributed: the network whose backward pass averages the gradients over the ranks.
    """

    def __init__(self, parts: Parts, batches: Iterator[Any], clock: Clock) -> None:
        self.parts, self.batches, self.clock = parts, batches, clock
        self.optimizer, self.precision = parts.optimizer, parts.precision
        self.loss = parts.precision.cast(parts.task.loss)
        self.distributed, self.model = parts.wrapped()
        self.micro_steps = parts.settings.gradient_accumulation_steps
        self.clip_grad = parts.settings.clip_grad
        self.scheduler = parts.scheduler if parts.settings.lr_interval == "step" else None

    def step(self, number: int) -> None:
        """Make the step of this number, from 1; the last of its micro steps averages the gradients over the ranks."""
        self.began = time()
        self.losses: list[Tensor] = []  # of the micro steps
        for _ in range(self.micro_steps - 1):
            with self._without_sync():
                self._micro_step()
            self.clock.lap(COMPUTE)
        self._micro_step()
        self.learning_rate = self.optimizer.param_groups[0]["lr"]
        self.grad_norm = self.precision.step(self.optimizer, self.parts.parameters, self.clip_grad)
        self.parts.update_average(number)
        self.optimizer.zero_grad()
        if self.scheduler is not None:
            self.scheduler.step()
        self.clock.lap(STEP)
        self.ended = time()

    def _micro_step(self) -> None:
        batch = next(self.batches)
        self.clock.lap(DATA)
        loss = self.loss(self.model, batch)
        self.precision.backward(loss, self.micro_steps)
        self.losses.append(loss)

    def _without_sync(self) -> AbstractContextManager[Any]:
        return self.distributed.no_sync() if self.parts.world.size > 1 else nullcontext()  # type: ignore[operator]

    def last(self, position: Position, epoch: int, units: int) -> Step:
        """The last step, for a record."""
        return Step(
            number=position.step,
            samples=position.samples,
            epoch=epoch,
            learning_rate=self.learning_rate,
            began=self.began,
            ended=self.ended,
            losses=self.losses,
            grad_norm=self.grad_norm,
            loss_scale=self.precision.loss_scale(),
            units=units,
        )
