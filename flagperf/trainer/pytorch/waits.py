"""Logs that this rank waits long in a collective, by torch's flight recorder, while the wait goes on.

The launcher joins these events of all ranks: a rank of the group that does not wait has not arrived
(`flagperf.results.waits`).
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any, Iterator, Tuple

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.pytorch.by_version import collective, collective_counts

POLL = 1.0  # seconds between two looks at the recorder; a look takes some 10 us
FIRST = 5.0  # seconds of a wait after which it is logged; logged again after twice the time, and so on

_Key = Tuple[str, int]  # process group; number of the last collective in it that has ended


class Waits:
    """Looks at the recorder from a thread of its own, as the rank's own thread waits.

    Args:
        perflog: takes WAITING.
        first: seconds.
    """

    def __init__(self, perflog: PerfLog, first: float = FIRST) -> None:
        self._log, self._first = perflog.log, first
        self._since: dict[_Key, tuple[float, float]] = {}  # begin of a wait, and the time of its next event
        self._paused, self._ended = False, Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block in which one rank may work alone for long, such as rank 0 while a checkpoint is written."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def _watch(self) -> None:
        while not self._ended.wait(min(POLL, self._first)):
            self._look(monotonic())

    def _look(self, now: float) -> None:
        unfinished = {} if self._paused else collective_counts()
        self._since = {key: self._since.get(key, (now, now + self._first)) for key in unfinished.items()}
        for key, (began, due) in list(self._since.items()):
            if now >= due and (waits_in := collective(key[0])) is not None:
                self._since[key] = (began, began + 2 * (due - began))
                self._log("WAITING", self._value(waits_in, now - began))

    def _value(self, waits_in: Any, seconds: float) -> dict[str, Any]:
        name, number, ranks = waits_in
        return {"collective": name, "number": number, "ranks": ranks, "seconds": seconds}
