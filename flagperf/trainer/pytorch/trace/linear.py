"""Counts at two sizes → counts at a third, along a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Callable, TypeVar

from flagperf.contract.trace import KINDS
from flagperf.trainer.pytorch.trace.counts import NO_CALL, Counts, Row, RowKey, Sent
from flagperf.trainer.pytorch.trace.memory import Bytes

FEW = (2, 3)  # blocks or micro steps that stand for more of them
SAMPLES = (1, 2)  # likewise, where values decide shapes
LENGTHS = (16, 32)  # likewise, of samples whose parts cost the same

Key = TypeVar("Key")
Sum = TypeVar("Sum", Row, Sent)


def along_line(counts: Sequence[Counts], sizes: tuple[int, int], wanted: int) -> Counts:
    """The counts of a wanted size, such as a number of blocks or samples, from those of two others."""
    (first, second), (small, large) = counts, sizes
    share = (wanted - small) / (large - small)

    def at(low: float, high: float) -> float:
        return low + (high - low) * share

    peaks = {
        location: _peak(first.peaks[location], second.peaks[location], at)
        for location in first.peaks.keys() & second.peaks.keys()
    }
    return Counts(
        samples=at(first.samples, second.samples),
        peaks=peaks,
        rows=_rows(first.rows, second.rows, at),
        sent=_sums(first.sent, second.sent, at, Sent),
    )


def _peak(first: Bytes, second: Bytes, at: Callable[..., float]) -> Bytes:
    """Bytes by kind. Where two peaks are different moments of the step, only the sum of the kinds lies on a line."""
    total = at(sum(first.values()), sum(second.values()))
    kinds = {kind: max(0.0, at(first[kind], second[kind])) for kind in KINDS}
    scale = total / sum(kinds.values()) if total > 0 else 0.0
    return {kind: size * scale for kind, size in kinds.items()}


def _rows(first: Mapping[RowKey, Row], second: Mapping[RowKey, Row], at: Callable[..., float]) -> dict[RowKey, Row]:
    """Rows by the sizes of a call where both have the same sizes; else the rows of one operator as one."""
    groups: dict[Any, list[set[RowKey]]] = {}
    for number, rows in enumerate((first, second)):
        for key in rows:
            groups.setdefault(key[:4], [set(), set()])[number].add(key)
    line: dict[RowKey, Row] = {}
    for group, (low, high) in groups.items():
        alike = low == high
        wide = group if alike else (*group, 0.0, 0.0, 0.0, NO_CALL)
        pair = [
            {key: rows[key] for key in keys} if alike else {wide: _merged([rows[key] for key in keys])}
            for rows, keys in ((first, low), (second, high))
        ]
        line.update(_sums(pair[0], pair[1], at, Row))
    return line


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
