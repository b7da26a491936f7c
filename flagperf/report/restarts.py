"""The restarts of a job's rounds, as a report shows them: lost steps and time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from flagperf.contract.records import Restart, Result
from flagperf.report.cells import ABSENT, number


def restart_rows(results: Iterable[Result]) -> list[dict[str, str]]:
    """A row for each lost attempt of each round."""
    return [
        {
            "round": str(result.round),
            "attempt": str(count),
            "lost": restart.failure.line,
            "hosts": ", ".join(restart.hosts),
            "last step": ABSENT if restart.last_step is None else str(restart.last_step),
            "went on after step": str(restart.next_step),
            "training lost [s]": _seconds(restart.lost),
            "until it trained again [s]": _seconds(restart.away),
        }
        for result in results
        for count, restart in enumerate(result.restarts, 1)
    ]


def attempt_lines(results: Iterable[Result]) -> list[str]:
    """A sentence on each round that was started again."""
    return [line for result in results if result.restarts for line in _lines(result.round, result.restarts)]


def _lines(round_: int, restarts: tuple[Restart, ...]) -> Iterator[str]:
    lost, away = (math.fsum(getattr(restart, name) or 0.0 for restart in restarts) for name in ("lost", "away"))
    yield (
        f"Round {round_} was started again, times: {len(restarts)}. Lost training and the time until it trained again: "
        f"{number(lost + away)} s. Throughput, energy and monitors are those of the last attempt"
    )


def _seconds(seconds: float | None) -> str:
    return ABSENT if seconds is None else number(seconds)
