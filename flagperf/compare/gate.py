"""A gate for CI: `p_train>-3%,accuracy>-1%` → passed, failed or undecided."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from flagperf.compare.values import Comparison, Estimate, Figure
from flagperf.errors import ConfigError

Outcome = Literal["passed", "failed", "undecided"]
EXIT_CODES: dict[Outcome, int] = {"passed": 0, "failed": 7, "undecided": 8}
WORST_FIRST: tuple[Outcome, ...] = ("failed", "undecided", "passed")
ACCURACY = "accuracy"  # the metric of the case's target
ADVISED_ROUNDS = 100  # a side; a message advises no more rounds than these
CONDITION = re.compile(r"\s*([A-Za-z_][\w.]*)\s*([<>])\s*([+-]?\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True)
class Condition:
    """The change of a figure must be above, or below, so many percent."""

    figure: str
    above: bool
    percent: float

    def __str__(self) -> str:
        return f"{self.figure}{'>' if self.above else '<'}{self.percent:+g}%"


@dataclass(frozen=True)
class Decision:
    """The outcome of a condition for a pair of jobs."""

    condition: str
    pair: str  # the two jobs
    outcome: Outcome
    why: str


def parse(text: str) -> tuple[Condition, ...]:
    """The conditions of a gate.

    Raises:
        ConfigError: a part of the text is no condition.
    """
    conditions = []
    for part in text.split(","):
        match = CONDITION.fullmatch(part)
        if match is None:
            allowed = "FIGURE>PERCENT% or FIGURE<PERCENT%, with commas between: p_train>-3%,accuracy>-1%,e2e_time<5%"
            raise ConfigError("the gate cannot be understood", key="gate", given=part.strip(), allowed=allowed)
        conditions.append(Condition(match[1], match[2] == ">", float(match[3])))
    return tuple(conditions)


def decide(condition: Condition, comparison: Comparison) -> Decision:
    """Whether a figure keeps the condition.

    It is decided where the whole interval lies on one side of the bound, or where all rounds are equal.

    Raises:
        ConfigError: the jobs do not have the figure.
    """
    figure = _figure(condition.figure, comparison)
    ratio, pair, text = figure.estimate, f"{comparison.base_name} → {comparison.other_name}", str(condition)
    if figure.is_equal:
        keeps = condition.percent < 0 if condition.above else condition.percent > 0
        return Decision(text, pair, "passed" if keeps else "failed", "no change: all rounds are equal")
    if ratio.low is None or ratio.high is None:
        return Decision(text, pair, "undecided", f"{change(ratio)}; one round of a job gives no interval: repeat=5")
    bound, answer = 1 + condition.percent / 100, f"{change(ratio)} ({interval(ratio)})"
    low, high = (ratio.low, ratio.high) if condition.above else (-ratio.high, -ratio.low)
    bound = bound if condition.above else -bound
    if low > bound:
        return Decision(text, pair, "passed", answer)
    if high <= bound:
        return Decision(text, pair, "failed", answer)
    more = _more(ratio.ratio / abs(bound), ratio.high / ratio.low, min(figure.base.n, figure.other.n))
    return Decision(text, pair, "undecided", f"{answer}: {more}")


def _more(distance: float, width: float, rounds: int) -> str:
    """A sentence on the number of rounds that would decide. The interval narrows with the root of their number.

    Args:
        distance: from the bound to the estimate, as a ratio.
        width: of the interval, as a ratio.
        rounds: of the side with fewer rounds.
    """
    gap = 2 * abs(math.log(distance))
    needed = rounds * (math.log(width) / gap) ** 2 if gap else math.inf
    if needed > ADVISED_ROUNDS:
        reason = "they vary too much, or the change is too near to the bound"
        return f"even {ADVISED_ROUNDS} rounds a side would not decide: {reason}"
    return f"about {max(math.ceil(needed), rounds + 1)} rounds a side would decide, if they vary like these"


def _figure(name: str, comparison: Comparison) -> Figure:
    goal = comparison.base.results[0].target
    wanted_name = f"final_{goal.metric}" if name == ACCURACY and goal else name
    for figure in comparison.figures:
        if figure.name == wanted_name:
            return figure
    known = ", ".join(figure.name for figure in comparison.figures)
    where = f"{comparison.base_name} and {comparison.other_name}"
    raise ConfigError(
        "these jobs do not both have the figure of the gate", where=where, key="gate", given=name, allowed=known
    )


def worst(outcomes: list[Outcome]) -> Outcome:
    """The worst of several outcomes; "passed" where there is none."""
    return min(outcomes, key=WORST_FIRST.index, default="passed")


def change(ratio: Estimate) -> str:
    """The ratio as a change in percent, with two digits of half its interval: "-3.2 %"."""
    return f"{100 * (ratio.ratio - 1):+.{_decimals(ratio)}f} %"


def interval(ratio: Estimate) -> str:
    """The interval of the change: "-5.1 % to -1.3 %"; "" where it is not known."""
    bounds = (ratio.low, ratio.high)
    return " to ".join(f"{100 * (bound - 1):+.{_decimals(ratio)}f} %" for bound in bounds if bound is not None)


def _decimals(ratio: Estimate) -> int:
    half = 50 * ((ratio.high or 0) - (ratio.low or 0))
    return 2 if half <= 0 else min(2, max(0, 1 - math.floor(math.log10(half))))
