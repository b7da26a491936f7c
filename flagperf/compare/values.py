"""The result of a comparison of two jobs. All frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flagperf.contract.records import Convergence, Statistics, Summary

Word = Literal["better", "worse", "same", "undecided"]


@dataclass(frozen=True)
class Estimate:
    """An estimate of the ratio of a figure: the other's over that of the base."""

    ratio: float
    low: float | None  # bounds of the 95 % confidence interval; None: the spread of the rounds is not known
    high: float | None
    method: str
    effect: float | None = None  # Cliff's delta, -1 to 1: 1 where each round of the other is above each of the base
    detects: float | None = None  # least change, as a share, that these rounds detect in four of five cases
    detects_with_more: float | None = None  # the same with five more rounds a side


@dataclass(frozen=True)
class Figure:
    """A figure of two jobs."""

    name: str
    unit: str
    higher: bool  # whether more is better
    base: Statistics
    other: Statistics
    estimate: Estimate
    word: Word
    is_equal: bool = False  # whether both jobs have the same values in their rounds: decided without an interval


@dataclass(frozen=True)
class Comparison:
    """Two jobs and the comparison of their figures."""

    base: Summary
    other: Summary
    base_name: str
    other_name: str
    figures: tuple[Figure, ...]
    differs: tuple[tuple[str, str, str], ...]  # allowed differences: key, value of the base, value of the other
    left_out: str = ""  # figures that are not compared, with the reason
    convergence: Convergence | None = None  # of the other, with the base as reference; None: the test does not apply

    @property
    def sides(self) -> tuple[tuple[str, Summary], tuple[str, Summary]]:
        """Name and Summary of the base and of the other."""
        return (self.base_name, self.base), (self.other_name, self.other)
