"""Time that a launcher spends standing still does not count."""

from __future__ import annotations

import asyncio
import time

import pytest

from flagperf.hosts import awake
from flagperf.hosts.awake import AwakeClock, within

pytestmark = pytest.mark.asyncio


async def test_a_standstill_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awake, "MOST", 0.2)
    began = time.monotonic()
    async with AwakeClock() as clock:
        time.sleep(1)  # as if the whole process were stopped
        seconds = clock.now()
    assert clock.stood >= 1
    assert clock.woke == seconds <= time.monotonic() - began - 0.7


async def test_the_clock_is_read_while_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awake, "MOST", 2.0)
    async with AwakeClock() as clock:
        for _ in range(20):  # the machine may be slow
            before = clock.now()
            await asyncio.sleep(3)
            if clock.now() - before > 2.5:
                return
    raise AssertionError("more than two seconds never counted")


async def test_work_within_its_limit() -> None:
    await within(asyncio.sleep(0), 60)
    with pytest.raises(ZeroDivisionError):
        await within(_fail(), 60)


async def test_work_past_its_limit_is_cancelled() -> None:
    work = asyncio.create_task(asyncio.sleep(3600))
    with pytest.raises(asyncio.TimeoutError):
        await within(work, 0.1)
    assert work.cancelled()


async def test_work_is_cancelled_with_whoever_waits_for_it() -> None:
    work = asyncio.create_task(asyncio.sleep(3600))
    waiting = asyncio.create_task(within(work, 3600))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.cancelled()


async def _fail() -> None:
    raise ZeroDivisionError
