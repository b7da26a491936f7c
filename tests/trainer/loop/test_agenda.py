"""What is due when: the time limit, which asks the other ranks rarely; and when nobody needs to ask at all."""

from __future__ import annotations

from typing import Any

import pytest
import toy

from flagperf.contract.settings import Settings
from flagperf.trainer.loop.agenda import Agenda, Position, TimeLimit


@pytest.mark.parametrize(
    ("seconds", "step_time", "asked", "last"),
    [
        pytest.param(10.0, 1.0, [1, 5, 7, 8, 9, 10], 10, id="more often towards the end"),
        pytest.param(
            100.0, 1.0, [1, 11, 21, 31, 41, 51, 61, 71, 81, 90, 95, 97, 98, 99, 100], 100, id="every 10 steps"
        ),
        pytest.param(1.0, 3.0, [1], 1, id="over in the first step"),
    ],
)
def test_time_limit(seconds: float, step_time: float, asked: list[int], last: int) -> None:
    """Every step takes `step_time` on the slowest rank."""
    steps: list[int] = []
    step = 0

    def largest(_: float) -> float:
        steps.append(step)
        return step * step_time

    limit = TimeLimit(seconds, largest)
    limit.start()
    for step in range(1, 1000):  # noqa: B007  # `largest` reads it
        if limit.passed():
            break
    assert (steps, step) == (asked, last)


@pytest.mark.parametrize(
    ("micro_steps", "evaluated"),
    [
        pytest.param(1, [7, 14, 21], id="one a step"),
        pytest.param(2, [4, 7, 11, 14, 18, 21], id="two a step"),
        pytest.param(7, list(range(1, 22)), id="as many as the interval"),
    ],
)
def test_an_interval_of_micro_steps(micro_steps: int, evaluated: list[int]) -> None:
    """The step that ends with or after each seventh micro step."""
    settings = {"gradient_accumulation_steps": micro_steps, "eval_interval_micro_steps": 7}
    agenda = Agenda(Settings.read(toy.config(**settings)), lambda number: number)
    assert [step for step in range(1, 22) if agenda.evaluates(Position(step=step), samples=8)] == evaluated


@pytest.mark.parametrize(
    ("settings", "step", "following"),
    [
        pytest.param({}, 3, None, id="none in this epoch"),
        pytest.param({"eval_interval_steps": 4}, 3, 4, id="evaluation"),
        pytest.param({"checkpoint_freq": 7, "eval_interval_steps": 9}, 3, 7, id="checkpoint before an evaluation"),
        pytest.param({"max_steps": 5}, 3, 5, id="end"),
        pytest.param({"max_time": 60.0}, 3, 4, id="time is asked at each step"),
        pytest.param({"eval_interval_samples": 500}, 3, 4, id="samples are counted at each step"),
        pytest.param({"eval_interval_micro_steps": 500}, 3, 4, id="micro steps likewise"),
    ],
)
def test_next_event(settings: dict[str, Any], step: int, following: int | None) -> None:
    agenda = Agenda(Settings.read(toy.config(**settings)), lambda number: number)
    assert agenda.next_event(Position(step=step)) == following


def test_next_record() -> None:
    agenda = Agenda(Settings.read(toy.config(log_freq=10)), lambda number: number)
    assert [agenda.next_record(step) for step in (3, 9, 10)] == [10, 10, 20]


STEPS = {"eval_interval_steps": 50, "eval_interval_samples": None, "eval_interval_epochs": 1}
SAMPLES = {"eval_interval_steps": None, "eval_interval_samples": 800, "eval_interval_epochs": 1}


@pytest.mark.parametrize(
    ("settings", "position", "evaluates"),
    [
        pytest.param(STEPS, Position(step=49, epoch=9, samples=9999), False, id="less than an interval of steps"),
        pytest.param(STEPS, Position(step=50), True, id="an interval of steps"),
        pytest.param(SAMPLES, Position(step=99, samples=799), False, id="less than an interval of samples"),
        pytest.param(SAMPLES, Position(step=99, samples=800), True, id="an interval of samples"),
        pytest.param({"eval_interval_epochs": 2}, Position(step=999, epoch=2), False, id="in the second epoch"),
        pytest.param({"eval_interval_epochs": 2}, Position(step=999, epoch=3), True, id="two epochs are complete"),
        pytest.param({"eval_interval_micro_steps": 60}, Position(step=59, epoch=9), False, id="less than micro steps"),
        pytest.param(
            {"eval_interval_micro_steps": 60, "gradient_accumulation_steps": 2},
            Position(step=30),
            True,
            id="micro steps",
        ),
        pytest.param({**STEPS, "initial_evaluation": True}, Position(step=1), True, id="it began with an evaluation"),
        pytest.param({"eval_interval_epochs": None}, Position(step=999, epoch=9), False, id="no interval"),
        pytest.param({**STEPS, "eval_start_samples": 501}, Position(step=50, samples=500), False, id="not yet"),
        pytest.param({**STEPS, "eval_start_samples": 500}, Position(step=50, samples=500), True, id="from now on"),
    ],
)
def test_evaluation_at_the_end(settings: dict[str, Any], position: Position, evaluates: bool) -> None:
    agenda = Agenda(Settings.read(toy.config(**settings)), lambda number: number)
    assert agenda.evaluates_end(position) is evaluates
