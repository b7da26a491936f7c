"""The rounds of two jobs → an estimate of the ratio of their figures.

The ratio is that of the arithmetic means over the rounds, as reports print them. Its interval is computed on
logarithms. From five rounds a side on, the interval holds the shifts that a Mann-Whitney test at 5 % does not reject
(Hollander, Wolfe: Nonparametric Statistical Methods, 4.2 and 4.3); it assumes no distribution of the rounds. With fewer
rounds it is Student's t with a common spread of both sides, to which earlier rounds of the same job on the same machine
contribute. A side with a single round and without earlier rounds has no interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from flagperf.compare.values import Estimate, Word

LEVEL = 0.05  # of a test; the interval has 95 %
ENOUGH_ROUNDS = 5  # a side, for a test by ranks: the most extreme orders are 2 of 252, 0.8 %


@dataclass(frozen=True)
class Spread:
    """How much rounds vary."""

    squares: float = 0.0  # of the deviations of logarithms from the mean of their job, added up
    freedom: int = 0  # degrees of freedom: rounds less jobs

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.squares + other.squares, self.freedom + other.freedom)

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Spread:
        """The spread of the rounds of a job; all values are above 0."""
        logs = [math.log(value) for value in rounds]
        mean = statistics.fmean(logs)
        return cls(sum((value - mean) ** 2 for value in logs), len(logs) - 1)


def estimate(base: Sequence[float], other: Sequence[float], earlier: Spread = Spread()) -> Estimate:
    """The ratio of other to base, from the values of their rounds, all above 0. `earlier`: of earlier rounds."""
    ratio = statistics.fmean(other) / statistics.fmean(base)
    if min(len(base), len(other)) >= ENOUGH_ROUNDS:
        return _by_ranks(ratio, [math.log(value) for value in base], [math.log(value) for value in other])
    spread = Spread.of(base) + Spread.of(other) + earlier
    if not spread.freedom or (min(len(base), len(other)) == 1 and not earlier.freedom):
        return Estimate(ratio, None, None, "one round")
    from scipy.stats import t

    deviation = math.sqrt(spread.squares / spread.freedom * (1 / len(base) + 1 / len(other)))
    reach = float(t.ppf(1 - LEVEL / 2, spread.freedom)) * deviation
    method = f"Student's t with {spread.freedom} degrees of freedom"
    if earlier.freedom:
        method += f" ({earlier.freedom} from earlier rounds)"
    return Estimate(ratio, ratio * math.exp(-reach), ratio * math.exp(reach), method)


def _by_ranks(ratio: float, base: Sequence[float], other: Sequence[float]) -> Estimate:
    """The estimate from the order of the rounds. `base` and `other` are logarithms."""
    from scipy.stats import mannwhitneyu

    shifts = sorted(right - left for left in base for right in other)
    between = [(first + second) / 2 for first, second in pairwise(shifts)]

    def allowed(index: int) -> bool:
        moved = [value - between[index] for value in other]
        return bool(mannwhitneyu(moved, base).pvalue >= LEVEL)

    indices = range(len(between))
    low = shifts[next(filter(allowed, indices), 0)]
    high = shifts[next(filter(allowed, reversed(indices)), len(between) - 1) + 1]
    effect = sum((right > left) - (right < left) for left in base for right in other) / len(shifts)
    return Estimate(ratio, math.exp(low), math.exp(high), "rank (Mann-Whitney)", effect)


def word(ratio: Estimate, higher: bool, margin: float) -> Word:
    """The answer of the interval. `margin`: smaller differences do not count, as a share of the base."""
    if ratio.low is None or ratio.high is None:
        return "undecided"
    if 1 - margin <= ratio.low and ratio.high <= 1 + margin:
        return "same"
    if ratio.low > 1 or ratio.high < 1:
        return "better" if (ratio.low > 1) is higher else "worse"
    return "undecided"
