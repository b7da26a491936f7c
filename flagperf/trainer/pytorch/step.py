"""One optimizer step: its micro steps, the update of the weights, and what a record says of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from time import time
from typing import Any

import torch
from torch import Tensor

from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.clock import COMPUTE, DATA, STEP, Clock
from flagperf.trainer.loop.records import Step
from flagperf.trainer.pytorch.compared import Comparisons
from flagperf.trainer.pytorch.parts import Parts

KEPT = 100  # steps whose losses stay on the device, to look where the training diverged


class Stepper:
    """Makes optimizer steps. What the last one left stays here until the next: only a few of them are recorded."""

    def __init__(self, parts: Parts, batches: Iterator[Any], clock: Clock) -> None:
        self.parts, self.batches, self.clock = parts, batches, clock
        self.strategy, self.optimizer, self.precision = parts.strategy, parts.optimizer, parts.precision
        self.loss = parts.precision.cast(parts.task.loss)
        self.model = parts.wrapped()
        self.micro_steps = parts.settings.gradient_accumulation_steps
        limit = parts.settings.clip_grad
        self.clip = None if limit is None else partial(parts.strategy.clip, parts.parameters, limit)
        self.scheduler = parts.scheduler if parts.settings.lr_interval == "step" else None
        self.comparisons = Comparisons(parts, self.loss, self.model)
        self.batch: Any = None
        self._kept: deque[tuple[int, list[Tensor]]] = deque(maxlen=KEPT)

    def step(self, number: int) -> None:
        """Make the step of this number, from 1; the last of its micro steps averages the gradients over the ranks."""
        self.began = time()
        self.losses: list[Tensor] = []  # of the micro steps
        self._kept.append((number, self.losses))
        for _ in range(self.micro_steps - 1):
            with self.strategy.accumulating():
                self._micro_step()
            self.clock.lap(COMPUTE)
        self._micro_step()
        self.learning_rate = self.optimizer.param_groups[0]["lr"]
        self.grad_norm = self.precision.step(self.optimizer, self.clip)
        self.parts.update_average(number)
        self.optimizer.zero_grad()
        if self.scheduler is not None:
            self.scheduler.step()
        self.clock.lap(STEP)
        self.ended = time()

    def close(self) -> None:
        """The last step is made."""

    def _micro_step(self) -> None:
        batch = next(self.batches)
        self.clock.lap(DATA)
        loss = self.loss(self.model, batch)
        self.precision.backward(loss, self.micro_steps)
        self.losses.append(loss.detach())
        self.batch = batch if self.comparisons.due else None  # that of the last micro step

    def diverged(self) -> int | None:
        """The first of the last steps in which the loss of this rank was no number. The host waits for the device."""
        return next((step for step, losses in self._kept if not torch.stack(losses).isfinite().all()), None)

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
