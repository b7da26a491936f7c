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
    """Laps by the monotonic clock of the host. `lap` only notes the end of a lap; `read` adds them up.

    Attributes:
        seconds: sums by kind of lap.
        steps: seconds of each optimizer step, from the end of the step before, without evaluations and checkpoints.
        waits: the seconds of each step in which this rank waited for other ranks.
    """

    name = "monotonic"

    def __init__(self) -> None:
        self.seconds = [0.0] * len(KINDS)
        self.steps, self.waits = array("d"), array("d")
        self._laps: list[tuple[int, Any]] = []
        self._read = 0
        self._step = self._wait = 0.0  # seconds of the current step that are read so far
        self._begin: Any = None

    def start(self) -> None:
        """Begin the first lap."""
        self._begin = perf_counter()

    def lap(self, kind: int) -> None:
        """End a lap and begin the next. STEP is the compute lap that ends an optimizer step."""
        self._laps.append((kind, perf_counter()))

    def mark(self) -> int:
        """The number of laps so far, for `read`."""
        return self._read + len(self._laps)

    def read(self, mark: int | None = None) -> None:
        """Add up the laps to a mark, or to the last lap. Waits until the device has reached it.

        A mark that was read before adds nothing.
        """
        count = len(self._laps) if mark is None else max(0, mark - self._read)
        laps, self._laps = self._laps[:count], self._laps[count:]
        if not laps:
            return
        self._read += len(laps)
        for (kind, _), seconds in zip(laps, self._durations([end for _, end in laps])):
            self.seconds[kind] += seconds
            if kind < EVALUATE:
                self._step += seconds
                if kind == WAIT:
                    self._wait += seconds
                elif kind == STEP:
                    self.steps.append(self._step)
                    self.waits.append(self._wait)
                    self._step = self._wait = 0.0
        self._begin = laps[-1][1]

    @property
    def compute(self) -> float:
        """Seconds of computing, and of waiting for other ranks."""
        return self.seconds[COMPUTE] + self.seconds[STEP] + self.seconds[WAIT]

    def _durations(self, ends: list[Any]) -> list[float]:
        return [end - begin for begin, end in zip([self._begin, *ends[:-1]], ends)]


class DeviceClock(Clock):
    """Laps by events on the device's stream. The host records them without waiting for the device.

    Args:
        make: a new event of the device that takes the time; it has `record`, `synchronize` and `elapsed_time`, in ms.
    """

    name = "device events"

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self._make = make
        self._free: list[Any] = []

    @override
    def start(self) -> None:
        self._begin = self._record()

    @override
    def lap(self, kind: int) -> None:
        self._laps.append((kind, self._record()))

    def _record(self) -> Any:
        event = self._free.pop() if self._free else self._make()
        event.record()
        return event

    def _durations(self, ends: list[Any]) -> list[float]:
        ends[-1].synchronize()
        begins = [self._begin, *ends[:-1]]
        self._free += begins
        return [begin.elapsed_time(end) / 1000 for begin, end in zip(begins, ends)]
