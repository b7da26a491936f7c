"""Compares a stated figure with its recomputed value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Answer = Literal["agrees", "differs", "not recomputed"]

EXACT = (1e-9, 0.0)  # relative and absolute tolerance: a different order of summation
CLOCKS = (0.02, 0.5)  # tolerance of the wall clock (whole ms) against the training's clock, as in the verdict


class UnknownError(Exception):
    """A figure cannot be recomputed. The text says why."""


@dataclass(frozen=True)
class Row:
    """The comparison of one figure."""

    location: str  # <job>/round<N>, or <job> for statements about all rounds
    figure: str
    stated: Any
    recomputed: Any  # None: unknown, or not recomputed
    answer: Answer
    how: str  # the source of the recomputed value, or the reason why there is none


@dataclass(frozen=True)
class Derivation:
    """How a figure follows from the logs."""

    compute: Callable[[Any], Any]  # raises UnknownError where the logs lack the figure
    how: str
    within: tuple[float, float] = EXACT


def compare_all(
    location: str, stated: Mapping[str, Any], derivations: Mapping[str, Derivation], source: Any
) -> Iterator[Row]:
    """Recompute every stated figure that has a derivation, from `source`."""
    for figure, derivation in derivations.items():
        if figure in stated:
            yield recompute(location, figure, stated[figure], derivation, source)


def recompute(location: str, figure: str, stated: Any, derivation: Derivation, source: Any) -> Row:
    """Compare one figure with the logs. A log may lack fields, or hold values of any type."""
    try:
        value = derivation.compute(source)
    except UnknownError as why:
        return Row(location, figure, stated, None, "not recomputed", str(why))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        lacking = f"the logs lack data for this figure: {type(error).__name__} {error}"
        return Row(location, figure, stated, None, "not recomputed", lacking)
    return compare(location, figure, stated, value, derivation.how, derivation.within)


def compare(
    location: str, figure: str, stated: Any, recomputed: Any, how: str, within: tuple[float, float] = EXACT
) -> Row:
    """Compare two values of one figure."""
    answer: Answer = "agrees" if same(stated, recomputed, within) else "differs"
    return Row(location, figure, stated, recomputed, answer, how)


def same(left: Any, right: Any, within: tuple[float, float] = EXACT) -> bool:
    """Whether two values are equal. `within` is the relative and the absolute tolerance of numbers."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key], within) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(lambda a, b: same(a, b, within), left, right))
    if is_number(left) and is_number(right):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or math.isclose(left, right, rel_tol=within[0], abs_tol=within[1])
    return bool(left == right) and type(left) is type(right)


def is_number(value: Any) -> bool:
    """Whether a value is a number. True and False are no numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
