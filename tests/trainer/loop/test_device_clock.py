"""Reading device events late. No chip made of Python is behind its host; these events happen when a test says so."""

from __future__ import annotations

import pytest

from flagperf.trainer.loop.clock import BOOKS, DATA, EVALUATE, STEP, DeviceClock


class Device:
    """A device that works off its stream when it is waited for, one second of work before each event."""

    def __init__(self) -> None:
        self.stream: list[Event] = []
        self.now = 0.0
        self.made = 0

    def catch_up(self, event: Event) -> None:
        while event in self.stream:
            self.now += 1.0
            self.stream.pop(0).time = self.now


class Event:
    """As a device's event: no time before the device got there."""

    device: Device

    def __init__(self) -> None:
        self.device.made += 1
        self.time: float | None = None

    def record(self) -> None:
        assert self not in self.device.stream, "recorded again before it was read"
        self.time = None
        self.device.stream.append(self)

    def synchronize(self) -> None:
        self.device.catch_up(self)

    def elapsed_time(self, end: Event) -> float:
        assert self.time is not None and end.time is not None, "read before it happened"
        return (end.time - self.time) * 1000


@pytest.fixture
def device() -> Device:
    Event.device = Device()
    return Event.device


def test_reads_only_what_it_was_asked_for(device: Device) -> None:
    clock = DeviceClock(Event)
    clock.start()
    for kind in (DATA, STEP, BOOKS):
        clock.lap(kind)
    mark = clock.mark()
    for kind in (DATA, STEP, EVALUATE):
        clock.lap(kind)
    assert device.now == 0  # nothing waited so far
    clock.read(mark)
    assert len(device.stream) == 3  # the device still has the second step to do
    assert clock.seconds == [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert list(clock.steps) == [2.0]
    clock.read(mark)  # again: it adds nothing
    assert list(clock.steps) == [2.0]
    clock.read()
    assert clock.seconds == [2.0, 0.0, 2.0, 1.0, 0.0, 1.0, 0.0]
    assert list(clock.steps) == [2.0, 3.0]  # the bookkeeping belongs to the step after it, the evaluation to none
    assert clock.compute == 3.0


def test_events_are_used_again(device: Device) -> None:
    clock = DeviceClock(Event)
    clock.start()
    for _ in range(100):
        clock.lap(DATA)
        clock.lap(STEP)
        clock.read()
    assert len(clock.steps) == 100
    assert device.made <= 4
