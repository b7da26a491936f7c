"""Judges a run by the comparisons of its figures: does every figure follow from the logs?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flagperf.verify.values import Row

FROM_LOGS = ("p_whole", "p_train", "p_core", "target_reached")  # figures that the logs of every training contain
LONGEST = 24  # characters of a value
NO_FIGURES = "no round of this bundle states a throughput: the bundle proves nothing"


def objections(rows: Sequence[Row]) -> Iterator[str]:
    """Why the run is not believed, a sentence each: figures that the logs contradict or lack. None: it is believed."""
    if not any(row.figure in FROM_LOGS and row.stated is not None for row in rows):
        yield NO_FIGURES
    for row in rows:
        if row.answer == "differs" or _is_not_in_logs(row):
            stated, recomputed = texts(row)
            result = f"recomputed {recomputed}" if row.answer == "differs" else row.answer
            yield f"{row.location}: {row.figure} is {stated}, {result} ({row.how})"


def texts(row: Row) -> tuple[str, str]:
    """The stated and the recomputed value. Two numbers that differ have enough digits to show the difference."""
    values, digits = (row.stated, row.recomputed), 6
    if row.answer == "differs" and all(isinstance(value, float) for value in values):
        digits = next((count for count in range(6, 17) if len({f"{value:.{count}g}" for value in values}) > 1), 17)
    stated, recomputed = (_text(value, digits) for value in values)
    return stated, "" if row.answer == "not recomputed" else recomputed


def _text(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, (dict, list)):
        return f"{len(value)} fields" if isinstance(value, dict) else f"{len(value)} entries"
    text = "–" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _is_not_in_logs(row: Row) -> bool:
    """Whether the logs lack a figure that the logs of every training contain."""
    return row.figure in FROM_LOGS and row.stated is not None and row.answer == "not recomputed"
