"""Ctrl-C and SIGTERM end a run in good order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruption(stop: Callable[[], object]) -> Iterator[asyncio.Event]:
    """While the block runs, a first SIGINT or SIGTERM sets the event and calls `stop`; a second one acts as usual."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    interrupted = asyncio.Event()

    def on_signal() -> None:
        restore()
        interrupted.set()
        stop()

    def restore() -> None:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield interrupted
    finally:
        restore()
