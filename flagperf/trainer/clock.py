"""Where the time of a training goes, as one unbroken row of laps: by device events, or the host's clock on a CPU."""

from __future__ import annotations

import time
from array import array
from typing import Any

import torch

# What a lap was spent on. A step is its data, its compute and the bookkeeping before it.
DATA, COMPUTE, STEP, BOOKS, EVALUATE, CHECKPOINT = range(6)


class Clock:
    """Laps by the monotonic clock of the host.

    Attributes:
        seconds: sums by kind of lap.
        steps: seconds of each optimizer step: all time since the last one, without evaluation and checkpoints.
    """

    name = "monotonic"

    def __init__(self) -> None:
        self.seconds = [0.0] * 6
        self.steps = array("d")
        self._in_steps = 0.0
        self._last = 0.0

    def start(self) -> None:
        """The first lap begins now."""
        self._last = time.perf_counter()

    def lap(self, kind: int) -> None:
        """A lap ends and the next begins; STEP is the compute lap that ends an optimizer step."""
        now = time.perf_counter()
        self._add(kind, now - self._last)
        self._last = now

    def mark(self) -> int:
        """A place in the row of laps, for `read`."""
        return 0

    def read(self, mark: int | None = None) -> None:
        """Bring `seconds` and `steps` up to a mark, or to the last lap; waits until the device has got there."""

    def _add(self, kind: int, seconds: float) -> None:
        self.seconds[kind] += seconds
        if kind == STEP:
            total = self.seconds
            in_steps = total[DATA] + total[COMPUTE] + total[STEP] + total[BOOKS]
            self.steps.append(in_steps - self._in_steps)
            self._in_steps = in_steps

    @property
    def compute(self) -> float:
        """Seconds of pure computing."""
        return self.seconds[COMPUTE] + self.seconds[STEP]


class DeviceClock(Clock):
    """Laps by events on the device's stream: recorded in passing, read later, so that the host never waits for them."""

    name = "device events"

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._make = torch.get_device_module(device).Event
        self._free: list[Any] = []
        self._laps: list[tuple[int, Any]] = []
        self._read = 0
        self._begin: Any = None

    def start(self) -> None:
        self._begin = self._record()

    def lap(self, kind: int) -> None:
        self._laps.append((kind, self._record()))

    def mark(self) -> int:
        return self._read + len(self._laps)

    def read(self, mark: int | None = None) -> None:
        count = len(self._laps) if mark is None else mark - self._read
        if count <= 0:
            return
        laps, self._laps = self._laps[:count], self._laps[count:]
        self._read += count
        laps[-1][1].synchronize()
        for kind, end in laps:
            self._add(kind, self._begin.elapsed_time(end) / 1000)
            self._free.append(self._begin)
            self._begin = end

    def _record(self) -> Any:
        event = self._free.pop() if self._free else self._make(enable_timing=True)
        event.record()
        return event


def clock_for(device: torch.device) -> Clock:
    """The finest clock this device has."""
    return Clock() if device.type == "cpu" else DeviceClock(device)
