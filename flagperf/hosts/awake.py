"""A clock that counts only the time in which this process runs: not while it is stopped, asleep or overloaded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

TICK = 1.0  # seconds between two readings
MOST = 5.0  # seconds between two readings that count; the process stood still for the rest of a longer interval
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux' other clocks stop while a laptop sleeps

T = TypeVar("T")


class AwakeClock:
    """Seconds in which this process was able to run. The clock ticks inside its `async with` block."""

    def __init__(self) -> None:
        self.stood = 0.0  # seconds of the last standstill
        self.woke = 0.0  # end of the last standstill, by this clock
        self._seconds, self._read = 0.0, time.clock_gettime(CLOCK)
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AwakeClock:
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._ticking is not None
        self._ticking.cancel()

    def now(self) -> float:
        """Seconds since the clock was made."""
        before, self._read = self._read, time.clock_gettime(CLOCK)
        passed = self._read - before
        self._seconds += min(passed, MOST)
        if passed > MOST:
            self.stood, self.woke = passed, self._seconds
        return self._seconds

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.now()


class Pulse:
    """Counts the signs that long work moves on."""

    def __init__(self) -> None:
        self.beats = 0

    def beat(self, *_: object) -> None:
        """Note a sign. Takes the arguments of any callback."""
        self.beats += 1


async def within(work: Awaitable[T], seconds: float, pulse: Pulse | None = None) -> T:
    """Wait for work, at most this many seconds of an AwakeClock; with a pulse, after each of its beats.

    Raises:
        asyncio.TimeoutError: the work took longer, and was cancelled.
    """
    task = asyncio.ensure_future(work)
    try:
        async with AwakeClock() as clock:
            began, beats = 0.0, 0
            while not task.done():
                if pulse is not None and pulse.beats != beats:
                    began, beats = clock.now(), pulse.beats
                left = began + seconds - clock.now()
                if left <= 0:
                    raise asyncio.TimeoutError
                await asyncio.wait({task}, timeout=left)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return task.result()


async def at_most(work: Awaitable[T], seconds: float) -> T:
    """Wait for short work, at most this many seconds. asyncio.wait_for loses cancellations before Python 3.12.

    Raises:
        asyncio.TimeoutError: the work took longer, and was cancelled.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
        return task.result()
    finally:
        task.cancel()
        if not task.done():
            await asyncio.gather(task, return_exceptions=True)
        elif not task.cancelled():
            task.exception()  # asked for, also where this wait was cancelled
