"""Step records: the numbers of a logged step go to the host while the device computes on, and are written later."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flagperf.perflog import PerfLog
from flagperf.trainer.pytorch.clock import BOOKS, DATA, Clock
from flagperf.trainer.pytorch.ranks import World


class Step(NamedTuple):
    """An optimizer step as the loop leaves it. Its tensors are still on the device."""

    number: int
    epoch: int
    learning_rate: float
    began: float  # wall clock
    ended: float
    losses: list[Tensor]  # of its micro steps
    grad_norm: Tensor | None
    loss_scale: Tensor | None
    units: int  # of this rank since the training started


class _Record(NamedTuple):
    step: Step
    values: Tensor | list[float]  # units, loss, norm and scale where there are any; going to the host, or there
    mark: int


class StepRecords:
    """Writes STEP_BEGIN and STEP_END of logged steps. A record is opened, settled and written.

    Attributes:
        opened: number of the newest step that was opened.
        loss: mean loss of the job in the newest step that was settled; once one is not finite, it stays.
        loss_step: number of the step of that loss.
        checksum: of all settled losses; it is the same on every rank, unless the ranks disagree.
    """

    def __init__(self, perflog: PerfLog, clock: Clock, world: World, device: torch.device) -> None:
        self.perflog, self.clock, self.world, self.device = perflog, clock, world, device
        self.opened = 0
        self.loss: float | None = None
        self.loss_step = 0
        self.checksum = 0
        # Where the device runs behind the host, a record is settled one step later: while the host waits, the device
        # has that step to compute.
        self._lag = 0 if device.type == "cpu" else 1
        self._open: _Record | None = None
        self._settled: list[tuple[Step, dict[str, Any]]] = []  # with the value of its STEP_END
        self._units = 0  # at the record opened before
        self._steps = 0  # at the record settled before
        self._data_wait = 0.0

    def open(self, step: Step) -> None:
        """Send a step's numbers to the host, without waiting for a device. The step before must be settled."""
        loss = step.losses[0] if len(step.losses) == 1 else torch.stack(step.losses).mean()
        numbers = [number for number in (loss.detach(), step.grad_norm, step.loss_scale) if number is not None]
        units = step.units - self._units
        values = self._from_device(numbers, units) if self._lag else self._from_host(numbers, units)
        self.clock.lap(BOOKS)
        self._open = _Record(step, values, self.clock.mark())
        self.opened, self._units = step.number, step.units

    def _from_host(self, numbers: list[Tensor], units: int) -> Tensor | list[float]:
        values = [float(units), *(number.item() for number in numbers)]
        return values if self.world.size == 1 else self.world.sum(torch.tensor(values, dtype=torch.float64))

    def _from_device(self, numbers: list[Tensor], units: int) -> Tensor:
        values = torch.stack([torch.full_like(numbers[0], units, dtype=torch.float32), *(n.float() for n in numbers)])
        self.world.sum(values)
        return torch.empty(values.shape, pin_memory=True).copy_(values, non_blocking=True)

    @property
    def due(self) -> int:
        """The step after which to settle the open record; 0 where none is open."""
        return self.opened + self._lag if self._open is not None else 0

    @property
    def finite(self) -> bool:
        """False once the loss of a settled step was NaN or infinite."""
        return self.loss is None or math.isfinite(self.loss)

    def settle(self) -> None:
        """Take the numbers and times of the open step, waiting until the device has finished it."""
        if self._open is None:
            return
        (step, values, mark), self._open = self._open, None
        self.clock.read(mark)
        units, *sums = values.tolist() if isinstance(values, Tensor) else values
        loss, *extra = (value / self.world.size for value in sums)  # these are means over the ranks
        if self.finite:
            self.loss, self.loss_step = loss, step.number
        self.checksum = zlib.crc32(struct.pack("<d", loss), self.checksum)
        times, data_wait = self.clock.steps[self._steps :], self.clock.seconds[DATA]
        value: dict[str, Any] = {
            "step": step.number,
            "epoch": step.epoch,
            "loss": loss,
            "learning_rate": float(step.learning_rate),
            "throughput": units / sum(times),
            "step_time": sum(times) / len(times),
            "data_wait": data_wait - self._data_wait,
        }
        names = [name for name in ("grad_norm", "loss_scale") if getattr(step, name) is not None]
        value.update(zip(names, extra, strict=True))
        self._settled.append((step, value))
        self._steps, self._data_wait = len(self.clock.steps), data_wait

    def write(self) -> None:
        """Write the settled steps."""
        settled, self._settled = self._settled, []
        for step, value in settled:
            self.perflog.log("STEP_BEGIN", {"step": step.number}, time_ms=int(step.began * 1000))
            self.perflog.log("STEP_END", value, time_ms=int(step.ended * 1000))
