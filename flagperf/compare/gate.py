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
WORST: tuple[Outcome, ...] = ("failed", "undecided", "passed")
ACCURACY = "accuracy"  # stands for the metric of the case's target
MOST_ROUNDS = 100  # a side, that it is of use to advise
FORM = re.compile(r"\s*([A-Za-z_][\w.]*)\s*([<>])\s*([+-]?\d+(?:\.\d+)?)\s*%\s*")


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
    """What came of one condition for one pair of jobs."""

    condition: str
    pair: str  # the two jobs
    outcome: Outcome
    why: str


def parse(text: str) -> tuple[Condition, ...]:
    """The conditions of a gate.

    Raises:
        ConfigError: a part of it is no condition.
    """
    found = []
    for part in text.split(","):
        match = FORM.fullmatch(part)
        if match is None:
            allowed = "FIGURE>PERCENT% or FIGURE<PERCENT%, with commas between: p_train>-3%,accuracy>-1%,e2e_time<5%"
            raise ConfigError("the gate cannot be understood", key="gate", given=part.strip(), allowed=allowed)
        found.append(Condition(match[1], match[2] == ">", float(match[3])))
    return tuple(found)


def decide(condition: Condition, comparison: Comparison) -> Decision:
    """Whether a figure changed as it may: only where the whole interval says so; else it is undecided.

    Raises:
        ConfigError: the jobs do not have the figure.
    """
    figure = _figure(condition.figure, comparison)
    found, pair, asked = figure.estimate, f"{comparison.base_name} → {comparison.other_name}", str(condition)
    if found.low is None or found.high is None:
        return Decision(asked, pair, "undecided", f"{change(found)}; one round of a job says no more: repeat=5")
    bound, said = 1 + condition.percent / 100, f"{change(found)} ({interval(found)})"
    low, high = (found.low, found.high) if condition.above else (-found.high, -found.low)
    bound = bound if condition.above else -bound
    if low > bound:
        return Decision(asked, pair, "passed", said)
    if high <= bound:
        return Decision(asked, pair, "failed", said)
    more = _more(found.ratio / abs(bound), found.high / found.low, min(figure.base.n, figure.other.n))
    return Decision(asked, pair, "undecided", f"{said}: {more}")


def _more(distance: float, width: float, rounds: int) -> str:
    """How many rounds would tell. The interval narrows with the root of their number, until it leaves out the bound.

    Args:
        distance: from the bound to the estimate, as a ratio.
        width: of the interval, as a ratio.
        rounds: of the side that has fewer.
    """
    away = 2 * abs(math.log(distance))
    wanted = rounds * (math.log(width) / away) ** 2 if away else math.inf
    if wanted > MOST_ROUNDS:
        why = "they vary too much, or the change is too near to the bound"
        return f"even {MOST_ROUNDS} rounds a side would not tell: {why}"
    return f"about {max(math.ceil(wanted), rounds + 1)} rounds a side would tell, if they go on to vary like these"


def _figure(name: str, comparison: Comparison) -> Figure:
    goal = comparison.base.results[0].target
    wanted = f"final_{goal.metric}" if name == ACCURACY and goal else name
    for figure in comparison.figures:
        if figure.name == wanted:
            return figure
    known = ", ".join(figure.name for figure in comparison.figures)
    where = f"{comparison.base_name} and {comparison.other_name}"
    raise ConfigError(
        "these jobs do not both have the figure of the gate", where=where, key="gate", given=name, allowed=known
    )


def worst(outcomes: list[Outcome]) -> Outcome:
    return min(outcomes, key=WORST.index, default="passed")


def change(found: Estimate) -> str:
    """The ratio as a change in percent, with two digits of half its interval: "-3.2 %"."""
    return f"{100 * (found.ratio - 1):+.{_decimals(found)}f} %"


def interval(found: Estimate) -> str:
    """The interval of the change: "-5.1 % to -1.3 %"; empty where it is not known."""
    bounds = (found.low, found.high)
    return " to ".join(f"{100 * (one - 1):+.{_decimals(found)}f} %" for one in bounds if one is not None)


def _decimals(found: Estimate) -> int:
    half = 50 * ((found.high or 0) - (found.low or 0))
    return 2 if half <= 0 else min(2, max(0, 1 - math.floor(math.log10(half))))
