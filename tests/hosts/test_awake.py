"""Time that a launcher spends standing still does not count."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flagperf.hosts import awake
from flagperf.hosts.awake import AwakeClock, Pulse, at_most, within

pytestmark = pytest.mark.asyncio

Wait = Callable[[Awaitable[Any], float], Awaitable[Any]]


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


WAYS = [pytest.param(within, id="within"), pytest.param(at_most, id="at_most")]


@pytest.mark.parametrize("wait", WAYS)
async def test_work_within_its_limit(wait: Wait) -> None:
    assert await wait(asyncio.sleep(0, "done"), 60) == "done"
    with pytest.raises(ZeroDivisionError):
        await wait(_fail(), 60)


@pytest.mark.parametrize("wait", WAYS)
async def test_work_past_its_limit_is_cancelled(wait: Wait) -> None:
    work = asyncio.create_task(asyncio.sleep(3600))
    with pytest.raises(asyncio.TimeoutError):
        await wait(work, 0.1)
    assert work.cancelled()


@pytest.mark.parametrize("wait", WAYS)
async def test_work_is_cancelled_with_whoever_waits_for_it(wait: Wait) -> None:
    work = asyncio.create_task(asyncio.sleep(3600))
    waiting = asyncio.ensure_future(wait(work, 3600))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.cancelled()


@pytest.mark.parametrize("wait", WAYS)
async def test_a_cancellation_counts_also_when_the_work_has_just_ended(wait: Wait) -> None:
    """asyncio.wait_for lost it before Python 3.12, and a loop around it went on for ever."""
    work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(wait(work, 3600))
    await asyncio.sleep(0.01)
    work.set_result(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_work_that_moves_has_no_limit_as_a_whole() -> None:
    pulse = Pulse()

    async def work(beats: int) -> str:
        for _ in range(beats):
            await asyncio.sleep(0.1)
            pulse.beat("a path", 7)
        await asyncio.sleep(0 if beats > 3 else 3600)
        return "done"

    assert await within(work(20), 1.0, pulse) == "done"
    with pytest.raises(asyncio.TimeoutError):
        await within(work(3), 0.3, pulse)


async def _fail() -> None:
    raise ZeroDivisionError
