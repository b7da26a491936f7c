"""Figures of a job from those of its ranks, checked with numbers of round sums; the clock they come from."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from flagperf.trainer.loop.clock import BOOKS, CHECKPOINT, COMPUTE, DATA, EVALUATE, STEP, WAIT, Clock
from flagperf.trainer.loop.figures import RankFigures, job_figures, metric_figures, percentiles

FAST = RankFigures(
    rank=0,
    host="a",
    samples=100,
    units=1000,
    steps=10,
    raw_train_time=10.0,
    step_time_sum=7.0,
    compute_time=5.0,
    data_wait=1.5,
    eval_time=2.0,
    checkpoint_time=1.0,
    init_time=3.0,
    e2e_time=14.0,
    wall_drift=0.0,
    steady_units=800,
    steady_time=4.0,
    step_time_p50=0.5,
    step_time_p90=0.7,
    step_time_p99=0.9,
    peak_memory=2.0,
    loss_checksum="1",
    parameters_checksum="2",
    communication_wait=0.25,
)
SLOW = replace(
    FAST, rank=1, host="b", samples=60, units=600, raw_train_time=12.0, eval_time=1.0, compute_time=8.0, data_wait=0.5,
    communication_wait=0.75,
    steady_units=400, steady_time=6.0, step_time_p50=0.6, step_time_p90=0.65, peak_memory=2.5, e2e_time=16.0,
)  # fmt: skip


def test_sums_over_the_slowest() -> None:
    figures = job_figures([FAST, SLOW])
    ranks = figures.pop("ranks")
    assert [rank["host"] for rank in ranks] == ["a", "b"]
    assert figures == {
        "e2e_time": 16.0,
        "init_time": 3.0,
        "raw_train_time": 12.0,
        "train_no_eval_time": 10.0,
        "pure_training_computing_time": 8.0,
        "training_sequences_per_second": 160 / 12,
        "p_whole": 1600 / 12,
        "p_train": 160.0,
        "p_core": 200.0,
        "num_trained_samples": 160,
        "num_trained_units": 1600,
        "steady_throughput": 200.0,
        "step_time_p50": 0.6,
        "step_time_p90": 0.7,
        "step_time_p99": 0.9,
        "data_wait": 1.0,
        "communication_wait": 0.5,
        "eval_time": 2.0,
        "checkpoint_time": 1.0,
        "peak_memory": 2.5,
    }


def test_nothing_after_the_warm_up() -> None:
    short = replace(FAST, steady_units=0, steady_time=0.0, step_time_p50=None, step_time_p90=None, step_time_p99=None)
    figures = job_figures([short])
    assert [figures[name] for name in ("steady_throughput", "step_time_p50", "step_time_p99")] == [None] * 3


METRICS: dict[str, tuple[dict[str, float], str | None, dict[str, float | None]]] = {
    "none": ({}, None, {"final_accuracy": None}),
    "not evaluated": ({}, "acc1", {"final_acc1": None, "final_accuracy": None}),
    "accuracy": ({"accuracy": 0.5}, None, {"final_accuracy": 0.5}),
    "the target's first": (
        {"acc1": 70.0, "acc5": 90.0},
        "acc5",
        {"final_acc1": 70.0, "final_acc5": 90.0, "final_accuracy": 90.0},
    ),
    "by its name": ({"loss": 1.0, "mlm_accuracy": 0.7}, "loss", {"final_loss": 1.0, "final_mlm_accuracy": 0.7,
                    "final_accuracy": 0.7}),
    "no accuracy": ({"map": 0.3}, "map", {"final_map": 0.3, "final_accuracy": None}),
}  # fmt: skip


@pytest.mark.parametrize(("metrics", "target", "expected"), METRICS.values(), ids=METRICS.keys())
def test_metrics(metrics: dict[str, float], target: str | None, expected: dict[str, Any]) -> None:
    assert metric_figures(metrics, target) == expected


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([], (None, None, None)),
        ([3.0], (3.0, 3.0, 3.0)),
        ([1.0, 2.0], (1.5, 1.9, 1.99)),
        ([float(number) for number in range(101)], (50.0, 90.0, 99.0)),
    ],
)
def test_percentiles(times: list[float], expected: tuple[float | None, ...]) -> None:
    assert percentiles(times) == pytest.approx(expected)


def test_laps_leave_no_time_out() -> None:
    clock = Clock()
    before = time.perf_counter()
    clock.start()
    after = time.perf_counter()
    kinds = [DATA, STEP, BOOKS, DATA, COMPUTE, DATA, COMPUTE, WAIT, STEP, EVALUATE, DATA, STEP, CHECKPOINT]
    for kind in kinds:
        time.sleep(0.002)
        ending = time.perf_counter()
        clock.lap(kind)
        if kind == EVALUATE:
            clock.read(clock.mark())
    ended = time.perf_counter()
    clock.read()
    assert ending - after <= sum(clock.seconds) <= ended - before
    assert all(clock.seconds[kind] >= 0.002 * kinds.count(kind) for kind in kinds)
    assert len(clock.steps) == 3
    assert sum(clock.steps) == pytest.approx(sum(clock.seconds) - clock.seconds[EVALUATE] - clock.seconds[CHECKPOINT])
    assert list(clock.waits) == [0.0, clock.seconds[WAIT], 0.0]
    assert clock.compute == pytest.approx(sum(clock.steps) - clock.seconds[DATA])  # and nothing else is left out
