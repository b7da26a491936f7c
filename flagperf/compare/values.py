"""What holding two jobs against each other comes to. All frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flagperf.contract.records import Statistics, Summary

Word = Literal["better", "worse", "same", "undecided"]


@dataclass(frozen=True)
class Estimate:
    """What the rounds of two jobs say of a ratio, the other's figure over that of the base."""

    ratio: float
    low: float | None  # bounds of its 95 % confidence interval; None: how rounds vary is not known
    high: float | None
    method: str  # what it was estimated by
    effect: float | None = None  # Cliff's delta, -1 to 1: how sure a round of the other is above one of the base


@dataclass(frozen=True)
class Figure:
    """One figure of two jobs."""

    name: str
    unit: str
    higher: bool  # whether more is better
    base: Statistics
    other: Statistics
    estimate: Estimate
    word: Word


@dataclass(frozen=True)
class Comparison:
    """Two jobs held against each other."""

    base: Summary
    other: Summary
    base_name: str
    other_name: str
    figures: tuple[Figure, ...]
    differs: tuple[tuple[str, str, str], ...]  # key, of the base, of the other: what may differ, and does
    left_out: str = ""  # which figures are not compared, and why

    @property
    def sides(self) -> tuple[tuple[str, Summary], tuple[str, Summary]]:
        """The names of both, with their jobs."""
        return (self.base_name, self.base), (self.other_name, self.other)
