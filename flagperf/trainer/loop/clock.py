"""The time of each part of a training: laps without gaps, by device events or, on a CPU, by the host's clock."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from time import perf_counter
from typing import Any

from typing_extensions import override

# Kinds of laps. The time of a step is the time of its data, its compute, its wait for other ranks, and the bookkeeping
# before it.
DATA, COMPUTE, STEP, BOOKS, WAIT, EVALUATE, CHECKPOINT = KINDS = range(7)


class Clock:
    """Laps by the monotonic clock of the host, added up when they end.

    Attributes:
        seconds: sums by kind of lap.
        steps: seconds of each optimizer step, from the end of the step before, without evaluations and checkpoints.
        waits: the seconds of each step in which this rank waited for other ranks.
        compute: seconds of all these steps without the wait for data.
    """

    name = "monotonic"

    def __init__(self) -> None:
        self.seconds = [0.0] * len(KINDS)
        self.steps, self.waits = array("d"), array("d")
        self.compute = 0.0
        self._step = self._wait = self._data = 0.0  # seconds of the current step so far
        self._begin: Any = None

    def start(self) -> None:
        """Begin the first lap."""
        self._begin = perf_counter()

    def lap(self, kind: int) -> None:
        """End a lap and begin the next. STEP is the compute lap that ends an optimizer step."""
        end = perf_counter()
        self._add(kind, end - self._begin)
        self._begin = end

    def mark(self) -> int:
        """The number of laps so far, for `read`; 0 where nothing is to read."""
        return 0

    def read(self, mark: int | None = None) -> None:
        """Add up the laps to a mark, or to the last lap. A device clock waits until the device has reached it."""

    def _add(self, kind: int, seconds: float) -> None:
        self.seconds[kind] += seconds
        if kind >= EVALUATE:
            return
        self._step += seconds
        if kind == WAIT:
            self._wait += seconds
        elif kind == DATA:
            self._data += seconds
        elif kind == STEP:
            self.steps.append(self._step)
            self.waits.append(self._wait)
            self.compute += self._step - self._data
            self._step = self._wait = self._data = 0.0


class DeviceClock(Clock):
    """Laps by events on the device's stream. The host records them without waiting for the device, and reads later.

    Args:
        make: a new event of the device that takes the time; it has `record`, `synchronize` and `elapsed_time`, in ms.
    """

    name = "device events"

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self._make = make
        self._free: list[Any] = []
        self._laps: list[tuple[int, Any]] = []
        self._read = 0

    @override
    def start(self) -> None:
        self._begin = self._record()

    @override
    def lap(self, kind: int) -> None:
        self._laps.append((kind, self._record()))

    @override
    def mark(self) -> int:
        return self._read + len(self._laps)

    @override
    def read(self, mark: int | None = None) -> None:
        """A mark that was read before adds nothing."""
        count = len(self._laps) if mark is None else max(0, mark - self._read)
        laps, self._laps = self._laps[:count], self._laps[count:]
        if not laps:
            return
        self._read += len(laps)
        laps[-1][1].synchronize()
        for kind, end in laps:
            self._add(kind, self._begin.elapsed_time(end) / 1000)
            self._free.append(self._begin)
            self._begin = end

    def _record(self) -> Any:
        event = self._free.pop() if self._free else self._make()
        event.record()
        return event
