"""Runs blocking calls in threads. A cancelled wait returns at once, and Python can exit while a call still runs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Do work in a new thread and wait for its result. After a cancellation the work goes on and its result is ignored.

    Python waits at its exit for the threads of asyncio's and concurrent.futures' executors. So these are not used here.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(setter: Callable[[Any], None], value: object) -> None:
        if not result.cancelled():
            setter(value)

    def run() -> None:
        try:
            outcome: tuple[Callable[[Any], None], object] = (result.set_result, work())
        except BaseException as error:
            outcome = (result.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(deliver, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return await result
