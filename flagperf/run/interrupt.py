"""Ends a run in good order after Ctrl-C, SIGTERM, or the close of its terminal (SIGHUP)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from flagperf.errors import InterruptedRunError

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruption(*answers: Callable[[], object]) -> Iterator[asyncio.Event]:
    """While the block runs, each signal calls the next answer. The first signal also sets the event.

    After the last answer a signal has its usual effect. An ignored signal, such as SIGHUP under nohup, stays ignored.
    """
    loop = asyncio.get_running_loop()
    handlers = ((number, signal.getsignal(number)) for number in SIGNALS)
    before = {number: handler for number, handler in handlers if handler != signal.SIG_IGN}
    interrupted = asyncio.Event()
    remaining = list(answers)

    def on_signal() -> None:
        interrupted.set()
        answer = remaining.pop(0)
        if not remaining:
            restore()
        answer()

    def restore() -> None:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    for number in before:
        loop.add_signal_handler(number, on_signal)
    try:
        yield interrupted
    finally:
        restore()


async def interruptible(work: Coroutine[Any, Any, T], stop: Callable[[], object] = lambda: None) -> T:
    """Do work until the first signal.

    Args:
        stop: ends what the cancellation of the work leaves running.

    Raises:
        InterruptedRunError: a signal came.
    """
    task = asyncio.create_task(work)
    with interruption(task.cancel, lambda: None) as interrupted:
        try:
            return await task
        except asyncio.CancelledError:
            if not interrupted.is_set():
                raise
            raise InterruptedRunError from None
        finally:
            task.cancel()
            stop()
