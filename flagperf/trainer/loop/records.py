"""Step records: the numbers of a logged step go to the host while the device goes on, and are written later."""

from __future__ import annotations

import math
import struct
import zlib
from operator import sub
from typing import Any, Callable, List, Mapping, NamedTuple, Sequence

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.clock import BOOKS, DATA, Clock

MAX_WAIT = 0.2  # seconds that records of fast steps may wait, to be written together
MAX_RECORDS = 16  # records that may wait; to write them takes less than half a millisecond
# Unit of the throughput → FlagPerf's name of it in a STEP_END, where its cases have one.
FLAGPERF_RATES = {"sequences/s": "seq/s", "samples/s": "seq/s", "images/s": "img/s", "tokens/s": "tokens/s"}
HEARTBEAT = 10.0  # seconds without a PerfLog line after which a moving loop writes one


class Step(NamedTuple):
    """An optimizer step as the loop leaves it. Its tensors, those of the framework, are still on the device."""

    number: int
    epoch: int
    learning_rate: float
    began: float  # wall clock
    ended: float
    losses: list[Any]  # tensors, of its micro steps
    grad_norm: Any  # a tensor, or None
    loss_scale: Any
    units: int  # of this rank since the training started
    samples: int  # of the whole job since its first start


Sums = Callable[[], Sequence[float]]  # waits for the numbers and returns them
# (units, losses, others) of a step → their sums over the ranks, on the way to the host. The losses of the micro steps
# become their mean.
Send = Callable[[int, List[Any], List[Any]], Sums]


class _Record(NamedTuple):
    step: Step
    sums: Sums  # units, loss; norm and scale where they exist
    mark: int


class _Settled(NamedTuple):
    step: Step
    numbers: Sequence[float]  # units, summed over the ranks; means of loss, norm and scale
    steps: int  # steps that the clock has read, up to this one
    data_wait: float  # seconds up to this step


class StepRecords:
    """Writes STEP_BEGIN and STEP_END of logged steps. A record is opened, settled and written.

    Records of fast steps are written together: code that runs once in ten steps is slow, because it has left the
    processor's caches.

    Args:
        size: ranks.
        send: the framework's way to bring a step's numbers to the host.
        lag: steps after which a record is settled: 0, or 1 where the device runs behind the host. While the host waits
            for the numbers of a step, the device then has the next one to compute.
        unit: of the throughput, such as images/s.

    Attributes:
        opened: number of the newest step that was opened.
        loss: mean loss of the job in the newest step that was settled; once one is not finite, it stays.
        loss_step: number of the step of that loss.
        checksum: of all settled losses; it is the same on every rank, unless the ranks disagree.
        metric: name and value of the last evaluation, for the steps that are written from now on.
        hold: number of the step whose record waits, as it is evaluated; 0: none waits.
    """

    def __init__(self, perflog: PerfLog, clock: Clock, size: int, send: Send, lag: int, unit: str) -> None:
        self.perflog, self.clock, self.size, self.send = perflog, clock, size, send
        self.opened = 0
        self.loss: float | None = None
        self.loss_step = 0
        self.checksum = 0
        self.metric: Mapping[str, float] = {}
        self.hold = 0
        self._lag, self._rate = lag, FLAGPERF_RATES.get(unit)
        self._open: _Record | None = None
        self._settled: list[_Settled] = []
        self._units = 0  # at the record opened before
        self._steps = 0  # at the record written before
        self._data_wait = 0.0

    def open(self, step: Step) -> None:
        """Send a step's numbers to the host, without waiting for a device. The step before must be settled."""
        extra = [number for number in (step.grad_norm, step.loss_scale) if number is not None]
        sums = self.send(step.units - self._units, step.losses, extra)
        self.clock.lap(BOOKS)
        self._open = _Record(step, sums, self.clock.mark())
        self.opened, self._units = step.number, step.units

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
        (step, sums, mark), self._open = self._open, None
        self.clock.read(mark)
        units, *others = sums()
        numbers = [units, *(value / self.size for value in others)]  # means over the ranks
        if self.finite:
            self.loss, self.loss_step = numbers[1], step.number
        logged = math.nan if math.isnan(numbers[1]) else numbers[1]  # the log keeps no sign of NaN
        self.checksum = zlib.crc32(struct.pack("<d", logged), self.checksum)
        self._settled.append(_Settled(step, numbers, len(self.clock.steps), self.clock.seconds[DATA]))

    @property
    def full(self) -> bool:
        """Whether the limit of waiting records is reached."""
        return len(self._settled) >= MAX_RECORDS

    def write(self, last: int = 0) -> None:
        """Write the settled steps.

        Args:
            last: the last step of the training; 0: not known yet.
        """
        settled, self._settled = self._settled, [one for one in self._settled if one.step.number == self.hold]
        for record in settled[: len(settled) - len(self._settled)]:
            step = record.step
            self.perflog.log("STEP_BEGIN", {"step": step.number}, time_ms=int(step.began * 1000))
            value = {**self._value(record), "end_training": step.number == last}
            self.perflog.log("STEP_END", value, time_ms=int(step.ended * 1000))

    def _value(self, record: _Settled) -> dict[str, Any]:
        """The value of a STEP_END."""
        step, (units, loss, *extra), steps, data_wait = record
        times, waits = self.clock.steps[self._steps : steps], self.clock.waits[self._steps : steps]
        seconds, waited = sum(times), sum(waits)
        value: dict[str, Any] = {
            "step": step.number,
            "epoch": step.epoch,
            "loss": loss,
            "learning_rate": float(step.learning_rate),
            "throughput": units / seconds,
            "step_time": seconds / len(times),
            "data_wait": data_wait - self._data_wait,
            "global_steps": step.number,
            "num_trained_samples": step.samples,
        }
        if waited:
            own_times = sorted(map(sub, times, waits))
            value["communication_wait"], value["own_time"] = waited, own_times[len(own_times) // 2]
        if self._rate is not None:
            value[self._rate] = value["throughput"]
        value.update(self.metric)
        names = [name for name in ("grad_norm", "loss_scale") if getattr(step, name) is not None]
        value.update(zip(names, extra))
        self._steps, self._data_wait = steps, data_wait
        return value
