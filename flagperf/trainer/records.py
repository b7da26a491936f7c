"""Step records: the numbers of a logged step travel from the device while it computes on, then are written."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flagperf.perflog import PerfLog
from flagperf.trainer.clock import BOOKS, DATA, Clock
from flagperf.trainer.world import World


@dataclass(frozen=True)
class Step:
    """An optimizer step as the loop leaves it; tensors are still on the device."""

    number: int
    epoch: int
    learning_rate: float
    began_ms: int
    ended_ms: int
    losses: list[Tensor]  # of its micro steps
    grad_norm: Tensor | None
    loss_scale: Tensor | None
    units: int  # of this rank since the training started


@dataclass(frozen=True)
class _Open:
    step: Step
    values: Tensor  # on the host, or on its way there
    units: int
    mark: int


class StepRecords:
    """Writes STEP_BEGIN and STEP_END of logged steps.

    Attributes:
        last: the newest step that was opened.
        loss: mean loss of the job in the newest step that was written.
        checksum: of all losses written; the same on every rank, or the ranks do not agree.
    """

    def __init__(self, perflog: PerfLog, clock: Clock, world: World, device: torch.device) -> None:
        self.perflog, self.clock, self.world, self.device = perflog, clock, world, device
        self.last = 0
        self.loss: float | None = None
        self.checksum = 0
        self._lag = 0 if device.type == "cpu" else 1
        self._open: _Open | None = None
        self._units = 0  # at the record before
        self._steps = 0
        self._data_wait = 0.0

    def open(self, step: Step) -> None:
        """Start the way of a step's numbers to the host; no waiting on a device."""
        self.close()
        units = step.units - self._units
        loss = torch.stack([loss.float() for loss in step.losses]).mean()
        values = torch.stack([loss, torch.full_like(loss, units), *_present(step.grad_norm, step.loss_scale)])
        self.world.sum(values)
        if self.device.type != "cpu":
            values = torch.empty(values.shape, pin_memory=True).copy_(values, non_blocking=True)
        self.clock.lap(BOOKS)
        self._open = _Open(step, values, units, self.clock.mark())
        self.last, self._units = step.number, step.units

    def is_due(self, step: int) -> bool:
        """Whether the open record is to be written after this step: a step later than on a CPU where the device runs
        behind the host, so that waiting for the record leaves it a whole step to compute on."""
        return self._open is not None and step >= self.last + self._lag

    def close(self) -> None:
        """Write the open step, waiting until the device has finished it."""
        if self._open is None:
            return
        step, values, mark = self._open.step, self._open.values, self._open.mark
        self._open = None
        self.clock.read(mark)
        loss, units, *extra = values.tolist()
        loss, *extra = (value / self.world.size for value in (loss, *extra))
        times = self.clock.steps[self._steps :]
        data_wait = self.clock.seconds[DATA]
        value: dict[str, Any] = {
            "step": step.number,
            "epoch": step.epoch,
            "loss": loss,
            "learning_rate": step.learning_rate,
            "throughput": units / sum(times),
            "step_time": sum(times) / len(times),
            "data_wait": data_wait - self._data_wait,
        }
        names = [name for name in ("grad_norm", "loss_scale") if getattr(step, name) is not None]
        value.update(zip(names, extra, strict=True))
        self.perflog.log("STEP_BEGIN", {"step": step.number}, time_ms=step.began_ms)
        self.perflog.log("STEP_END", value, time_ms=step.ended_ms)
        self._steps, self._data_wait = len(self.clock.steps), data_wait
        self.loss = loss
        self.checksum = zlib.crc32(struct.pack("<d", loss), self.checksum)


def _present(*values: Tensor | None) -> list[Tensor]:
    return [value.float() for value in values if value is not None]
