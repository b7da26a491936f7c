"""The rounds of two jobs → an estimate of the ratio of their figures.

The ratio is that of the arithmetic means over the rounds, as reports print them; its interval is made on logarithms.
From five rounds a side nothing is assumed of how rounds are distributed: the interval of the shifts that a
Mann-Whitney test at 5 % does not refuse (Hollander, Wolfe: Nonparametric Statistical Methods, 4.2 and 4.3). With fewer,
rounds are taken as normal with one spread for both sides, to which earlier rounds of the same job on the same machine
add what they know: Student's t. A single round on one side, without earlier ones, leaves a ratio and no more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from flagperf.compare.values import Estimate, Word

LEVEL = 0.05  # of a test; the interval has the rest, 95 %
ENOUGH = 5  # rounds a side from which ranks alone can tell: two of 252 orders are the most extreme, 0.8 %


@dataclass(frozen=True)
class Spread:
    """How rounds vary, known from earlier ones."""

    squares: float = 0.0  # of the deviations of logarithms from the mean of their job, added up
    freedom: int = 0  # degrees of it: rounds less jobs

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.squares + other.squares, self.freedom + other.freedom)

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Spread:
        """Of the rounds of one job; all above 0."""
        logs = [math.log(value) for value in rounds]
        mean = statistics.fmean(logs)
        return cls(sum((value - mean) ** 2 for value in logs), len(logs) - 1)


def estimate(base: Sequence[float], other: Sequence[float], earlier: Spread = Spread()) -> Estimate:
    """The ratio of other to base, from a value a round; all above 0."""
    ratio = statistics.fmean(other) / statistics.fmean(base)
    if min(len(base), len(other)) >= ENOUGH:
        return _by_ranks(ratio, [math.log(value) for value in base], [math.log(value) for value in other])
    known = Spread.of(base) + Spread.of(other) + earlier
    if not known.freedom or (min(len(base), len(other)) == 1 and not earlier.freedom):
        return Estimate(ratio, None, None, "one round")
    from scipy.stats import t

    deviation = math.sqrt(known.squares / known.freedom * (1 / len(base) + 1 / len(other)))
    reach = float(t.ppf(1 - LEVEL / 2, known.freedom)) * deviation
    method = f"Student's t with {known.freedom} degrees of freedom"
    if earlier.freedom:
        method += f" ({earlier.freedom} from earlier rounds)"
    return Estimate(ratio, ratio * math.exp(-reach), ratio * math.exp(reach), method)


def _by_ranks(ratio: float, base: Sequence[float], other: Sequence[float]) -> Estimate:
    """By the order of the rounds alone; of logarithms."""
    from scipy.stats import mannwhitneyu

    shifts = sorted(right - left for left in base for right in other)
    between = [(first + second) / 2 for first, second in pairwise(shifts)]

    def allowed(place: int) -> bool:
        moved = [value - between[place] for value in other]
        return bool(mannwhitneyu(moved, base).pvalue >= LEVEL)

    places = range(len(between))
    low = shifts[next(filter(allowed, places), 0)]
    high = shifts[next(filter(allowed, reversed(places)), len(between) - 1) + 1]
    effect = sum((right > left) - (right < left) for left in base for right in other) / len(shifts)
    return Estimate(ratio, math.exp(low), math.exp(high), "rank (Mann-Whitney)", effect)


def word(found: Estimate, higher: bool, margin: float) -> Word:
    """What the interval says. `margin`: so small a difference is none, as a share of the base."""
    if found.low is None or found.high is None:
        return "undecided"
    if 1 - margin <= found.low and found.high <= 1 + margin:
        return "same"
    if found.low > 1 or found.high < 1:
        return "better" if (found.low > 1) is higher else "worse"
    return "undecided"
