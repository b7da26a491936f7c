"""Counts at two sizes → counts at a third, along a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Callable, TypeVar

from flagperf.contract.trace import KINDS
from flagperf.trainer.pytorch.trace.counts import Counts, Row, RowKey, Sent

Key = TypeVar("Key")
Sum = TypeVar("Sum", Row, Sent)


def along_line(counts: Sequence[Counts], sizes: tuple[int, int], wanted: int) -> Counts:
    """The counts of a wanted size, such as a number of blocks or samples, from those of two others."""
    (first, second), (small, large) = counts, sizes
    share = (wanted - small) / (large - small)

    def at(low: float, high: float) -> float:
        return low + (high - low) * share

    places = first.peaks.keys() & second.peaks.keys()
    peaks = {
        place: {kind: max(0.0, at(first.peaks[place][kind], second.peaks[place][kind])) for kind in KINDS}
        for place in places
    }
    return Counts(
        samples=at(first.samples, second.samples),
        peaks=peaks,
        rows=_rows(first.rows, second.rows, at),
        sent=_sums(first.sent, second.sent, at, Sent),
    )


def _rows(first: Mapping[RowKey, Row], second: Mapping[RowKey, Row], at: Callable[..., float]) -> dict[RowKey, Row]:
    """Rows by the sizes of a call where both have the same sizes; else the rows of one operator as one."""
    groups: dict[Any, list[set[RowKey]]] = {}
    for place, rows in enumerate((first, second)):
        for key in rows:
            groups.setdefault(key[:4], [set(), set()])[place].add(key)
    found: dict[RowKey, Row] = {}
    for group, (low, high) in groups.items():
        alike = low == high
        wide = group if alike else (*group, 0.0, 0.0, 0.0)
        pair = [
            {key: rows[key] for key in keys} if alike else {wide: _merged([rows[key] for key in keys])}
            for rows, keys in ((first, low), (second, high))
        ]
        found.update(_sums(pair[0], pair[1], at, Row))
    return found


def _merged(rows: list[Row]) -> Row:
    return Row(*(sum(getattr(row, field.name) for row in rows) for field in fields(Row)))


def _sums(first: Mapping[Key, Sum], second: Mapping[Key, Sum], at: Any, kind: type[Sum]) -> dict[Key, Sum]:
    nothing = kind()
    return {
        key: kind(
            *(
                max(0.0, at(getattr(first.get(key, nothing), f.name), getattr(second.get(key, nothing), f.name)))
                for f in fields(kind)
            )
        )
        for key in {**first, **second}
    }
