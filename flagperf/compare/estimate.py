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
from flagperf.results.convergence import MORE, detectable

LEVEL = 0.05  # of a test; the interval has 95 %
ENOUGH_ROUNDS = 5  # a side, for a test by ranks: the most extreme orders are 2 of 252, 0.8 %


@dataclass(frozen=True)
class Spread:
    """How much rounds vary."""

    squares: float = 0.0  # of the deviations of logarithms from the mean of their job, added up
    freedom: int = 0  # degrees of freedom: rounds less jobs

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.squares + other.squares, self.freedom + other.freedom)

    @property
    def deviation(self) -> float:
        """The standard deviation of the logarithms of the rounds of a job."""
        return math.sqrt(self.squares / self.freedom)

    def detects(self, rounds: int, others: int, further: int) -> float:
        """The change, as a share, that a t-test would detect between so many rounds of a job and of another.

        Args:
            further: of these rounds, those that have yet to be trained.
        """
        freedom = self.freedom + further
        return math.expm1(detectable(self.deviation, rounds, others, freedom, LEVEL / 2))

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Spread:
        """The spread of the rounds of a job; all values are above 0."""
        logs = [math.log(value) for value in rounds]
        mean = statistics.fmean(logs)
        return cls(sum((value - mean) ** 2 for value in logs), len(logs) - 1)


def estimate(base: Sequence[float], other: Sequence[float], earlier: Spread = Spread()) -> Estimate:
    """The ratio of other to base, from the values of their rounds, all above 0. `earlier`: of earlier rounds."""
    ratio = statistics.fmean(other) / statistics.fmean(base)
    spread = Spread.of(base) + Spread.of(other) + earlier
    by_ranks = min(len(base), len(other)) >= ENOUGH_ROUNDS
    if not by_ranks and (not spread.freedom or (min(len(base), len(other)) == 1 and not earlier.freedom)):
        return Estimate(ratio, None, None, "one round")
    detects = [spread.detects(len(base) + more, len(other) + more, 2 * more) for more in (0, MORE)]
    if by_ranks:
        low, high, effect = _by_ranks([math.log(value) for value in base], [math.log(value) for value in other])
        return Estimate(ratio, low, high, "rank (Mann-Whitney)", effect, *detects)
    from scipy.special import stdtrit  # the t distribution; scipy.stats takes a second longer to import

    deviation = spread.deviation * math.sqrt(1 / len(base) + 1 / len(other))
    reach = math.exp(float(stdtrit(spread.freedom, 1 - LEVEL / 2)) * deviation)
    method = f"Student's t with {spread.freedom} degrees of freedom"
    if earlier.freedom:
        method += f" ({earlier.freedom} from earlier rounds)"
    return Estimate(ratio, ratio / reach, ratio * reach, method, None, *detects)


def _by_ranks(base: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Bounds of the ratio, and Cliff's delta, from the order of the rounds. `base` and `other` are logarithms."""
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
    return math.exp(low), math.exp(high), effect


def word(ratio: Estimate, higher: bool, margin: float) -> Word:
    """The answer of the interval. `margin`: smaller differences do not count, as a share of the base."""
    if ratio.low is None or ratio.high is None:
        return "undecided"
    if 1 - margin <= ratio.low and ratio.high <= 1 + margin:
        return "same"
    if ratio.low > 1 or ratio.high < 1:
        return "better" if (ratio.low > 1) is higher else "worse"
    return "undecided"
