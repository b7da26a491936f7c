"""The cost of a round: time by part, energy by a replayed trace, price."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from flagperf.contract.monitor_log import stamp
from flagperf.results.cost import cost_of, price_of_job
from flagperf.results.monitors import job_energy, summarize

RANK = {"raw_train_time": 100.0, "compute_time": 70.0, "data_wait": 8.0, "eval_time": 12.0, "checkpoint_time": 6.0}
VALUES = {
    "num_trained_samples": 1000,
    "ranks": [{**RANK, "rank": 0, "communication_wait": 10.0}, {**RANK, "rank": 1, "communication_wait": 30.0}],
}
PHASES = {
    "a": {"compose": 1.0, "imports": 9.0, "init": 4.0, "first_step": 3.0, "stop": 2.0},
    "b": {"imports": 16.0, "collect": 5.0},
}


def test_the_parts_are_the_whole_time_to_train() -> None:
    cost = cost_of(VALUES, PHASES, {}, 36.0, target_reached=True)
    assert cost == {
        "seconds": {
            "start": 16.0,
            "data": 8.0,
            "compute": 50.0,
            "communication": 20.0,
            "evaluation": 12.0,
            "checkpoints": 6.0,
            "other": 4.0,
        },
        "time_to_train": 116.0,
        "energy": {},
        "price": {"per_hour": 36.0, "total": 1.16, "per_sample": 0.00116, "to_target": 1.16},
    }


def test_communication_that_no_rank_measures_is_no_part() -> None:
    ranks = [{**rank, "communication_wait": None} for rank in VALUES["ranks"]]
    seconds = cost_of({**VALUES, "ranks": ranks}, PHASES, {}, None, target_reached=False)["seconds"]
    assert (list(seconds), seconds["compute"]) == (
        ["start", "data", "compute", "evaluation", "checkpoints", "other"],
        70.0,
    )


@pytest.mark.parametrize(
    ("config", "price"),
    [
        pytest.param({"hardware": {"price_per_hour": 2.0}, "cluster": {}}, 32.0, id="of a device"),
        pytest.param({"hardware": {"price_per_hour": 2.0}, "cluster": {"price_per_hour": 11.0}}, 22.0, id="of a node"),
        pytest.param({"hardware": {"price_per_hour": None}, "cluster": {}}, None, id="not known"),
    ],
)
def test_price_of_a_job(config: dict[str, Any], price: float | None) -> None:
    assert price_of_job(config, devices=16, nnodes=2) == price


def watts(second: float) -> float:
    """A trace of a node's power: steps, evaluations with less power, and noise."""
    return 300 + 400 * (second % 97 < 70) + 60 * math.sin(second / 3) + 25 * math.sin(7.7 * second)


@pytest.mark.parametrize("interval", [1, 5])
def test_energy_agrees_with_a_replayed_trace_within_2_percent(tmp_path: Path, interval: int) -> None:
    began, seconds, part = 1_700_000_000, 1800, 20  # the trace has a value for each 1/part s
    lines = [f"{stamp(began + at)}\t{watts(at):g}\n" for at in range(-10, seconds + 11, interval)]
    (tmp_path / "pwr_monitor.log").write_text("".join(lines))
    energy = job_energy({"node": summarize(tmp_path, began, began + seconds)}, samples=1000)
    exact = sum(watts(at / part) for at in range(seconds * part)) / part
    cost = cost_of(VALUES, PHASES, energy, None, target_reached=True)["energy"]["node"]
    assert cost["to_target_j"] == pytest.approx(exact, rel=0.02)
    assert cost["per_sample_j"] == pytest.approx(exact / 1000, rel=0.02)
    assert cost["coverage"] == pytest.approx(1.0)
