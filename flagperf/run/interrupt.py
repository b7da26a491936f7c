"""Ctrl-C, SIGTERM and a terminal that is closed (SIGHUP) end a run in good order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruption(*answers: Callable[[], object]) -> Iterator[asyncio.Event]:
    """While the block runs, each signal calls the next of the answers, the first one also sets the event.

    When all were called a signal acts as usual. One that is ignored, such as SIGHUP under nohup, stays so.
    """
    loop = asyncio.get_running_loop()
    handlers = ((number, signal.getsignal(number)) for number in SIGNALS)
    before = {number: handler for number, handler in handlers if handler != signal.SIG_IGN}
    interrupted = asyncio.Event()
    left = list(answers)

    def on_signal() -> None:
        interrupted.set()
        answer = left.pop(0)
        if not left:
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
