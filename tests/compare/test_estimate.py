"""What rounds say of a ratio: held against values worked out elsewhere, and against many made-up experiments."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from flagperf.compare.estimate import Spread, estimate, word
from flagperf.compare.values import Estimate, Word

TWO = "Student's t with 2 degrees of freedom"


def rounded(found: Estimate) -> tuple[float | None, ...]:
    values = (found.ratio, found.low, found.high, found.effect)
    return tuple(None if value is None else round(value, 4) for value in values)


@pytest.mark.parametrize(
    ("base", "other", "earlier", "expected", "method"),
    [
        pytest.param([100], [95], Spread(), (0.95, None, None, None), "one round", id="one round each"),
        pytest.param([100], [79, 80, 81], Spread(), (0.8, None, None, None), "one round", id="one round against three"),
        # t of 97.5 % is 4.3027 with 2 degrees of freedom, 2.7764 with 4
        pytest.param(
            [99, 101],
            [94, 96],
            Spread(),
            (0.95, 0.8925, 1.0112, None),
            "Student's t with 2 degrees of freedom",
            id="two rounds each",
        ),
        pytest.param(
            [100],
            [95],
            Spread.of([98, 99, 100, 101, 102]),
            (0.95, 0.8928, 1.0109, None),
            "Student's t with 4 degrees of freedom (4 from earlier rounds)",
            id="one round each, and earlier ones",
        ),
        # Of 25 ratios in their order the 3rd and the 23rd: the interval of Mann-Whitney at 5 % for five and five
        pytest.param(
            [99, 99.5, 100, 100.5, 101],
            [94, 94.5, 95, 95.5, 96],
            Spread(),
            (0.95, 0.9356, 0.9646, -1.0),
            "rank (Mann-Whitney)",
            id="five rounds each",
        ),
        # Geometric means say +0.9, the median of all ratios +0.5: printed are the arithmetic means, 100 and 125
        pytest.param([50, 150], [110, 140], Spread(), (1.25, 0.1112, 14.0538, None), TWO, id="the means as printed"),
        pytest.param([7.0] * 5, [7.0] * 6, Spread(), (1, 1, 1, 0), "rank (Mann-Whitney)", id="all the same"),
        pytest.param(
            [7.0] * 3,
            [7.7] * 3,
            Spread(),
            (1.1, 1.1, 1.1, None),
            "Student's t with 4 degrees of freedom",
            id="no spread",
        ),
    ],
)
def test_an_estimate(
    base: list[float], other: list[float], earlier: Spread, expected: tuple[float | None, ...], method: str
) -> None:
    found = estimate(base, other, earlier)
    assert (rounded(found), found.method) == (expected, method)


@pytest.mark.long
@pytest.mark.parametrize("rounds", [2, 5])
def test_the_interval_holds_the_truth_as_often_as_it_says(rounds: int) -> None:
    """Of 200 experiments with rounds that vary by 2 %, and a true ratio of 0.95."""
    chance, held = random.Random(0), 0
    for _ in range(200):
        base = [chance.gauss(100, 2) for _ in range(rounds)]
        other = [chance.gauss(95, 1.9) for _ in range(rounds)]
        found = estimate(base, other)
        assert found.low is not None and found.high is not None
        held += found.low <= 0.95 <= found.high
    assert 0.91 <= held / 200 <= 0.99


@pytest.mark.parametrize(
    ("low", "high", "higher", "expected"),
    [
        pytest.param(1.02, 1.05, True, "better", id="more is better"),
        pytest.param(1.02, 1.05, False, "worse", id="less is better"),
        pytest.param(0.9, 0.95, True, "worse", id="less of what should be more"),
        pytest.param(0.9, 0.95, False, "better", id="less of what should be less"),
        pytest.param(0.995, 1.005, True, "same", id="within the margin"),
        pytest.param(1.002, 1.004, True, "same", id="sure, and too little to matter"),
        pytest.param(0.97, 1.02, True, "undecided", id="both are possible"),
        pytest.param(None, None, True, "undecided", id="not known"),
    ],
)
def test_the_word_for_it(low: float | None, high: float | None, higher: bool, expected: Word) -> None:
    assert word(Estimate(1.0, low, high, ""), higher, 0.01) == expected


@pytest.mark.long
def test_the_stated_change_is_detected_in_four_of_five_cases() -> None:
    """Of jobs that differ by it, a t-test at 5 % finds about four of five different."""
    from scipy.stats import ttest_ind  # its import takes a second

    drawn, rounds, deviation = np.random.default_rng(1), 7, 0.03
    change = math.log1p(Spread(12 * deviation**2, 12).detects(rounds, rounds, 0))
    base, other = drawn.normal(0, deviation, (4000, rounds)), drawn.normal(change, deviation, (4000, rounds))
    assert 0.78 < (ttest_ind(base, other, axis=1).pvalue < 0.05).mean() < 0.82
