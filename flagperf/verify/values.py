"""What the second look at a figure came to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Answer = Literal["agrees", "differs", "not recomputed"]

EXACT = (
    1e-9,
    0.0,
)  # share and absolute value by which two numbers may differ: the same numbers, added in another order
CLOCKS = (0.02, 0.5)  # wall clock, in whole ms, against the clock of the training; as the verdict allows it


class UnknownError(Exception):
    """A figure cannot be computed again; its text says why."""


@dataclass(frozen=True)
class Row:
    """One figure."""

    place: str  # <job>/round<N>; <job> alone for what is said of all rounds
    figure: str
    stated: Any
    found: Any  # None: not known, or not recomputed
    answer: Answer
    how: str  # it was computed, or why it cannot be


@dataclass(frozen=True)
class Derivation:
    """How a figure follows from the logs."""

    compute: Callable[[Any], Any]  # raises UnknownError where it cannot
    how: str
    within: tuple[float, float] = EXACT


def rows(place: str, stated: Mapping[str, Any], ways: Mapping[str, Derivation], source: Any) -> Iterator[Row]:
    """Hold every stated figure that has a derivation against what that gives of `source`."""
    for figure, way in ways.items():
        if figure in stated:
            yield row(place, figure, stated[figure], way, source)


def row(place: str, figure: str, stated: Any, way: Derivation, source: Any) -> Row:
    """Hold one figure against what the logs give. Nobody vouches for a log: it may lack, or hold, anything."""
    try:
        found = way.compute(source)
    except UnknownError as why:
        return Row(place, figure, stated, None, "not recomputed", str(why))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        lacking = f"the logs do not hold what it needs: {type(error).__name__} {error}"
        return Row(place, figure, stated, None, "not recomputed", lacking)
    return held(place, figure, stated, found, way.how, way.within)


def held(place: str, figure: str, stated: Any, found: Any, how: str, within: tuple[float, float] = EXACT) -> Row:
    """Two values side by side."""
    return Row(place, figure, stated, found, "agrees" if same(stated, found, within) else "differs", how)


def same(one: Any, other: Any, within: tuple[float, float] = EXACT) -> bool:
    """Whether two values are the same; numbers may differ by a share and an absolute value."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key], within) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(lambda a, b: same(a, b, within), one, other))
    if is_number(one) and is_number(other):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=within[0], abs_tol=within[1])
    return bool(one == other) and type(one) is type(other)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
