"""Did the loss go down? Courses of a loss, with noise, and what the verdict makes of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from flagperf.contract.perflog import Event
from flagperf.results.evidence import Evidence
from flagperf.results.learning import LEARNING
from flagperf.results.rank_log import RankLog

SEEDS = range(20)  # of the noise
BACK = [5.0] * 4 + [1.0] * 4


def judged(losses: list[float], *, steps: int, resumed: int = 0) -> list[tuple[str, str]]:
    """What the rules find in a round of so many steps that logged these losses."""
    logged = [Event("STEP_END", {"step": step, "loss": loss}) for step, loss in enumerate(losses, 1)]
    finished = Event("FINISHED", {"global_steps": steps, "resumed_from_step": resumed})
    log = RankLog(0, "node0", 0, (*logged, finished))
    return [found for rule in LEARNING for found in rule(Evidence(status="finished", world_size=1, logs=(log,)))]


def course(shape: Callable[[float], float], noise: float, points: int, seed: int = 0) -> list[float]:
    """`points` losses along a shape over 0 to 1."""
    dice = random.Random(seed)
    return [shape(n / (points - 1)) + dice.gauss(0, noise) for n in range(points)]


def falls(at: float) -> float:
    return 1 + 4 * math.exp(-8 * at)


def rises(at: float) -> float:
    return 2 + at


def falls_and_comes_back(at: float) -> float:
    return 5 - 8 * at if at < 0.5 else 1 + 6 * (at - 0.5)


def jumps_first(at: float) -> float:
    return 2.3 + 20 * at if at < 0.1 else 4.5 * math.exp(-3 * (at - 0.1))


def below_zero(at: float) -> float:
    return -5 * at


def flat(_: float) -> float:
    return 2.3


@pytest.mark.parametrize("points", [11, 100])
@pytest.mark.parametrize("shape", [falls, flat, jumps_first, below_zero])
def test_honest_courses(shape: Callable[[float], float], points: int) -> None:
    found = {seed: judged(course(shape, 0.1, points, seed), steps=1000) for seed in SEEDS}
    assert {seed: told for seed, told in found.items() if told} == {}


@pytest.mark.parametrize("points", [16, 100])
@pytest.mark.parametrize(
    ("shape", "start"),
    [
        pytest.param(rises, "the loss ended above where it began: ", id="rises"),
        pytest.param(lambda at: -below_zero(at) - 5, "the loss ended above where it began: ", id="rises below zero"),
        pytest.param(falls_and_comes_back, "the loss diverged: from ", id="falls and comes back"),
    ],
)
def test_courses_to_look_at(shape: Callable[[float], float], start: str, points: int) -> None:
    def starts(told: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(verdict, reason[: len(start)]) for verdict, reason in told]

    found = {seed: judged(course(shape, 0.1, points, seed), steps=1000) for seed in SEEDS}
    assert {seed: told for seed, told in found.items() if starts(told) != [("SUSPECT", start)]} == {}


@pytest.mark.parametrize(
    ("losses", "steps", "resumed", "reasons"),
    [
        pytest.param([1.0] * 4 + [2.0] * 4, 100, 0, ["the loss ended above where it began: 2, from 1"], id="a step"),
        pytest.param([1.0] * 4 + [2.0] * 4, 99, 0, [], id="too few steps"),
        pytest.param([1.0] * 4 + [2.0] * 4, 1099, 1000, [], id="too few steps after a resume"),
        pytest.param([1.0] * 4 + [2.0] * 3, 100, 0, [], id="too few losses"),
        pytest.param(
            BACK + [3.5] * 4,
            100,
            0,
            ["the loss diverged: from 5 to 1, and back to 3.5"],
            id="more than half of the way back",
        ),
        pytest.param(BACK + [2.9] * 4, 100, 0, [], id="less than half of the way back"),
        pytest.param([math.nan] * 4 + [1.0] * 7, 100, 0, [], id="another rule tells what is not finite"),
    ],
)
def test_limits(losses: list[float], steps: int, resumed: int, reasons: list[str]) -> None:
    assert judged(losses, steps=steps, resumed=resumed) == [("SUSPECT", reason) for reason in reasons]
