"""Ctrl-C, SIGTERM and a terminal that is closed (SIGHUP) end a run in good order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruption(stop: Callable[[], object]) -> Iterator[asyncio.Event]:
    """While the block runs, a first signal sets the event and calls `stop`; a second one acts as usual.

    A signal that is ignored, such as SIGHUP under nohup, stays so.
    """
    loop = asyncio.get_running_loop()
    handlers = ((number, signal.getsignal(number)) for number in SIGNALS)
    before = {number: handler for number, handler in handlers if handler != signal.SIG_IGN}
    interrupted = asyncio.Event()

    def on_signal() -> None:
        restore()
        interrupted.set()
        stop()

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
