"""Deadlines over what the ranks show."""

from __future__ import annotations

import pytest

from flagperf.config.schema.limits import Deadlines
from flagperf.contract.perflog import Event
from flagperf.run.watch import Watch

DEADLINES = Deadlines(connect=1, start=10, first_step=20, stall=5, stop=1)
Seen = tuple[float, int, str]  # when, rank, event and its phase
SUBMITTED: list[Seen] = [(1, 0, "SUBMIT_INFO"), (2, 1, "SUBMIT_INFO"), (3, 2, "SUBMIT_INFO")]
EVALUATES: Seen = (20, 0, "HEARTBEAT evaluate")
FIRST_STEP: list[Seen] = [*SUBMITTED, (4, 0, "TRAIN_START"), (5, 0, "STEP_END")]


@pytest.mark.parametrize(
    ("seen", "now", "overdue"),
    [
        pytest.param([], 10, None, id="start: in time"),
        pytest.param([], 10.1, "no sign of life from ranks 0, 1, 2 within 10 s (deadlines.start)", id="start: none"),
        pytest.param(
            SUBMITTED[:2], 10.1, "no sign of life from rank 2 within 10 s (deadlines.start)", id="start: one is missing"
        ),
        pytest.param(SUBMITTED, 23, None, id="first step: in time"),
        pytest.param(SUBMITTED, 23.1, "no first step within 20 s (deadlines.first_step)", id="first step: late"),
        pytest.param(
            [*SUBMITTED, (20, 0, "HEARTBEAT")],
            23.1,
            "no first step within 20 s (deadlines.first_step)",
            id="first step: moving is not enough",
        ),
        pytest.param([*SUBMITTED, EVALUATES], 40, None, id="first step: the evaluation before training moves"),
        pytest.param(
            [*SUBMITTED, EVALUATES],
            40.1,
            "no first step within 20 s (deadlines.first_step)",
            id="first step: the evaluation before training stands still",
        ),
        pytest.param([*SUBMITTED, (30, 0, "INIT_EVALUATION")], 50, None, id="first step: evaluated before training"),
        pytest.param(FIRST_STEP, 10, None, id="stall: in time"),
        pytest.param(FIRST_STEP, 10.1, "hang: no progress for 5 s (deadlines.stall)", id="stall"),
        pytest.param([*FIRST_STEP, (9, 0, "HEARTBEAT")], 13, None, id="stall: a heartbeat is progress"),
        pytest.param(
            [*FIRST_STEP, (9, 0, "WAITING")],
            10.1,
            "hang: no progress for 5 s (deadlines.stall)",
            id="stall: a wait for other ranks is none",
        ),
        pytest.param(
            [*FIRST_STEP, (9, 1, "STEP_END")],
            10.1,
            "hang: no progress for 5 s (deadlines.stall)",
            id="stall: rank 0 counts",
        ),
    ],
)
def test_overdue(seen: list[Seen], now: float, overdue: str | None) -> None:
    watch = Watch([0, 1, 2], DEADLINES, started=0)
    for when, rank, event in seen:
        name, _, phase = event.partition(" ")
        watch.observe(rank, Event(name, {"phase": phase}, rank=rank), when)
    assert watch.overdue(now) == overdue
