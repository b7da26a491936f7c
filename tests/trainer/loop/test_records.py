"""Records that wait, and are written together, hold what they hold when each is written at once."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import pytest

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.clock import DATA, STEP, Clock
from flagperf.trainer.loop.records import MAX_RECORDS, Step, StepRecords, Sums


class Log(PerfLog):
    """Keeps the values of STEP_END."""

    def __init__(self) -> None:
        super().__init__(rank=0, fd=-1)
        self.values: list[Any] = []

    def log(self, event: str, value: Any = None, **_: Any) -> None:
        if event == "STEP_END":
            self.values.append(value)


class Ticks(Clock):
    """The n-th lap takes n seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.laps = 0

    def lap(self, kind: int) -> None:
        self.laps += 1
        self._add(kind, float(self.laps))


def send(units: int, losses: list[Any], extra: list[Any]) -> Sums:
    return lambda: [float(units), *losses, *extra]


def written(steps: int, every: int) -> list[Any]:
    """STEP_END values of a training that logs every third step and writes its records in groups."""
    log, clock = Log(), Ticks()
    records = StepRecords(log, clock, 1, send, 0, "images/s")
    clock.start()
    for number in range(1, steps + 1):
        clock.lap(DATA)
        clock.lap(STEP)
        if number % 3 == 0:
            records.open(Step(number, 1, 0.1, 0.0, 1.0, [1.0 / number], 2.0, None, units=8 * number, samples=number))
            records.settle()
            if number % (3 * every) == 0:
                records.write()
    records.write()
    return log.values


@pytest.mark.parametrize("every", [2, 5, 100])
def test_they_hold_the_same_however_long_they_wait(every: int) -> None:
    assert written(30, every) == written(30, 1)
    assert len(written(30, every)) == 10


def test_only_so_many_wait() -> None:
    records = StepRecords(Log(), Ticks(), 1, send, 0, "images/s")
    records.clock.start()
    full = []
    for number in range(1, MAX_RECORDS + 1):
        records.clock.lap(STEP)
        records.open(Step(number, 1, 0.1, 0.0, 1.0, [1.0], None, None, units=number, samples=number))
        records.settle()
        full.append(records.full)
    assert full == [False] * (MAX_RECORDS - 1) + [True]


def test_each_nan_has_the_checksum_of_the_logged_one() -> None:
    """Devices give NaN with either sign; a reader of the log computes the checksum again."""
    sums = []
    for loss in (math.nan, -math.nan, math.copysign(math.nan, -1.0)):
        records = StepRecords(Log(), Ticks(), 1, send, 0, "images/s")
        records.clock.start()
        records.clock.lap(STEP)
        records.open(Step(1, 1, 0.1, 0.0, 1.0, [loss], None, None, units=1, samples=1))
        records.settle()
        sums.append(records.checksum)
    assert sums == [zlib.crc32(struct.pack("<d", float("nan")))] * 3
