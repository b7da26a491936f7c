"""Finds the ranks that have not arrived in a collective in which others wait, by their WAITING events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from flagperf.contract.records import LateRank

SLACK = 2.0  # seconds by which the next event of a wait may be later than twice the time of the wait


class _Wait(NamedTuple):
    collective: tuple[str, int, tuple[int, ...]]  # name, number, ranks
    until: float  # seconds since the epoch; without a further event the wait is over then


class Waits:
    """Takes the events of all ranks in the order of their times.

    Each rank logs a wait after 5, 10, 20 … seconds. A second event shows that the wait still goes on after all
    other waiting ranks have logged a wait.
    """

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}  # rank → its last logged step
        self._waits: dict[int, _Wait] = {}  # rank → its newest wait
        self._named: set[tuple[int, int]] = set()  # rank and step

    def step_ended(self, rank: int, step: int) -> None:
        """A rank logged a step: it does not wait."""
        self._steps[rank] = step
        self._waits.pop(rank, None)

    def observe(self, rank: int, value: Mapping[str, Any], now: float) -> Iterator[LateRank]:
        """Take a WAITING. Yields each rank that is now known to be late, once for a wait.

        Args:
            now: the time of the event, in seconds since the epoch, by a clock that all ranks share.
        """
        collective = (value["collective"], value["number"], tuple(value["ranks"]))
        before = self._waits.get(rank)
        self._waits[rank] = _Wait(collective, now + value["seconds"] + SLACK)
        if before is None or before.collective != collective:
            return
        waiting = {other for other, wait in self._waits.items() if now <= wait.until}
        for late in sorted(set(collective[2]) - waiting):
            step = self._steps.get(late)
            if step is not None and (late, step) not in self._named:  # before its first step a rank may compile
                self._named.add((late, step))
                yield LateRank(late, step + 1, step + 1, value["seconds"], collective=collective[0])
