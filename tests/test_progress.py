"""What people see while a round runs."""

from __future__ import annotations

import io
from typing import Any

import pytest
from example import example_run
from rich.console import Console

from flagperf.perflog import Event
from flagperf.progress import Progress, TimeLeft, duration, evaluation_text, step_text
from flagperf.schema import Failure


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (62, "1:02"), (3605, "1:00:05"), (360000, "100:00:00")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_step_text() -> None:
    value = {"step": 20, "epoch": 2, "loss": 0.43215, "throughput": 1523.14}
    assert step_text(value, "images/s", 62) == "step 20  epoch 2  loss 0.4321  1523.1 images/s  at most 1:02 left"
    assert step_text({"step": 1}, "images/s", None) == "step 1"
    assert step_text({"step": 1, "loss": float("nan")}, "images/s", None) == "step 1  loss nan"


def test_evaluation_text() -> None:
    assert evaluation_text({"step": 20, "samples": 80, "acc1": 97.25, "time": 1.5}) == "step 20  acc1 97.25"


def step(number: int) -> Event:
    return Event("STEP_END", {"step": number})


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        pytest.param({"max_steps": None}, None, id="no limit"),
        pytest.param({"max_steps": 40}, 30.0, id="steps: 30 more, each in 1 s"),
        pytest.param({"max_steps": None, "max_samples_termination": 160}, 10.0, id="samples: 20 steps of 8"),
        pytest.param({"max_steps": None, "max_time": 15}, 4.0, id="seconds, since TRAIN_START"),
        pytest.param({"max_steps": None, "max_epochs": 10}, 40.0, id="epochs: 10 of 5 steps"),
        pytest.param({"max_steps": 40, "max_time": 15}, 4.0, id="the first limit counts"),
        pytest.param({"max_steps": 5}, 0.0, id="over"),
    ],
)
def test_time_left(limits: dict[str, Any], left: float | None) -> None:
    estimate = TimeLeft(example_run(config=limits).config, world_size=2)
    estimate.saw(Event("TRAIN_START"), 100.0)
    estimate.saw(step(5), 106.0)  # the first steps are slower
    assert estimate.seconds(106.0) == (9.0 if "max_time" in limits else None)
    estimate.saw(Event("EPOCH_END", {"epoch": 1}), 106.0)
    estimate.saw(step(10), 111.0)
    assert estimate.seconds(111.0) == left


def shown(terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200)
    with Progress(example_run(), console) as progress:
        progress.phase("start", "here")
        progress.event(Event("TRAIN_START"))
        for number in (1, 2, 3):
            progress.event(Event("STEP_END", {"step": number}))
        progress.event(Event("EVALUATE", {"step": 3, "acc1": 0.5}))
        progress.failure(Failure("exit code 1", "watch", "here", 0, 1, 1, ("[red]Error[/red]",)))
    return out.getvalue()


def test_plain_lines_are_few() -> None:
    lines = [line.split("s  ", 1)[1] for line in shown(terminal=False).splitlines() if "s  " in line]
    assert lines == [
        "start   here",
        "train   step 1",
        "evaluate step 3  acc1 0.5",
        "failed  rank 1 on here (node rank 0): exit code 1, while in phase 'watch'",
    ]
    assert shown(terminal=False).splitlines()[-1] == "    [red]Error[/red]"


def test_a_terminal_renews_one_line() -> None:
    assert "step 3" in shown(terminal=True)
