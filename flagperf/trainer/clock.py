"""Where the time of a training goes, as one unbroken row of laps: by device events, or the host's clock on a CPU."""

from __future__ import annotations

import time
from array import array
from typing import Any

import torch

# What a lap was spent on. A step is its data, its compute and the bookkeeping before it.
DATA, COMPUTE, STEP, BOOKS, EVALUATE, CHECKPOINT = range(6)


class Clock:
    """Laps by the monotonic clock of the host. They are only noted as they end; `read` adds them up.

    Attributes:
        seconds: sums by kind of lap.
        steps: seconds of each optimizer step: all time since the last one, without evaluation and checkpoints.
    """

    name = "monotonic"

    def __init__(self) -> None:
        self.seconds = [0.0] * 6
        self.steps = array("d")
        self._laps: list[tuple[int, Any]] = []
        self._read = 0
        self._step = 0.0  # of the current step, as far as it is read
        self._begin: Any = None

    def start(self) -> None:
        """The first lap begins now."""
        self._begin = time.perf_counter()

    def lap(self, kind: int) -> None:
        """A lap ends and the next begins; STEP is the compute lap that ends an optimizer step."""
        self._laps.append((kind, time.perf_counter()))

    def mark(self) -> int:
        """The place in the row of laps, for `read`."""
        return self._read + len(self._laps)

    def read(self, mark: int | None = None) -> None:
        """Bring `seconds` and `steps` up to a mark, or to the last lap; waits until the device has got there."""
        count = len(self._laps) if mark is None else mark - self._read
        laps, self._laps = self._laps[:count], self._laps[count:]
        self._read += len(laps)
        if laps:
            self._wait(laps[-1][1])
        for kind, end in laps:
            self._add(kind, self._seconds(self._begin, end))
            self._begin = end

    @property
    def compute(self) -> float:
        """Seconds of pure computing."""
        return self.seconds[COMPUTE] + self.seconds[STEP]

    def _add(self, kind: int, seconds: float) -> None:
        self.seconds[kind] += seconds
        if kind < EVALUATE:
            self._step += seconds
        if kind == STEP:
            self.steps.append(self._step)
            self._step = 0.0

    def _wait(self, moment: Any) -> None:
        """Moments of the host have always come."""

    def _seconds(self, begin: Any, end: Any) -> float:
        return float(end - begin)


class DeviceClock(Clock):
    """Laps by events on the device's stream: recorded in passing, so that the host never waits for them."""

    name = "device events"

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._make = torch.get_device_module(device).Event
        self._free: list[Any] = []

    def start(self) -> None:
        self._begin = self._record()

    def lap(self, kind: int) -> None:
        self._laps.append((kind, self._record()))

    def _record(self) -> Any:
        event = self._free.pop() if self._free else self._make(enable_timing=True)
        event.record()
        return event

    def _wait(self, moment: Any) -> None:
        moment.synchronize()

    def _seconds(self, begin: Any, end: Any) -> float:
        self._free.append(begin)
        return float(begin.elapsed_time(end)) / 1000


def clock_for(device: torch.device) -> Clock:
    """The finest clock this device has."""
    return Clock() if device.type == "cpu" else DeviceClock(device)
