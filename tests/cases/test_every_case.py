"""What holds for each shipped case: its ranks stay equal, it resumes where it stopped, and it trains in bf16."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from recording import RECORDED
from shipped import FAMILIES
from toy import fork_ranks, losses, read_log, train, values

from flagperf.contract.components import component

ROUNDING = {
    "faster_rcnn": 0.1,  # rounding also decides which proposals it learns from
    "mask_rcnn": 0.1,
    "resnet50": 0.15,  # its large lr enlarges rounding from step to step, on some processors to 12 % at the third
}
QUICK = ("vit",)  # in the default suite; the others take minutes
PARAMETERS = [pytest.param(case, id=case, marks=[] if case in QUICK else pytest.mark.slow) for case in FAMILIES]
Tiny = Callable[[str], dict[str, Any]]
Recorded = Callable[[str], Path]
STEPS = {"max_steps": 5, "log_freq": 1, "initial_evaluation": False}


@pytest.mark.parametrize("case", PARAMETERS)
def test_two_ranks(tiny: Tiny, recorded: Recorded, tmp_path: Path, case: str) -> None:
    """They end with equal parameters and the task's metrics; resumed after seven of ten steps they go on as if never
    interrupted.
    """
    folder = recorded(case)
    whole = [read_log(folder / f"rank{rank}/log0") for rank in range(2)]
    config = tiny(case) | RECORDED | {"resume": str(folder / "checkpoint")}
    again = fork_ranks(partial(train, config), tmp_path)
    finished = [events[-1].value for events in (*whole, *again)]
    measured = [rank for value in finished for rank in value["ranks"]]
    checksums = {(rank["parameters_group"], rank["parameters_checksum"]) for rank in measured}
    assert len(checksums) == len({part for part, _ in checksums})  # of what the ranks hold of the network
    for events in (*whole, *again):
        (evaluated,) = values(events, "EVALUATE")
        assert set(evaluated) - {"step", "samples", "time"} == set(component(config, "task").metrics)
    assert [value["global_steps"] for value in finished] == [10] * 4
    for before, after in zip(whole, again, strict=True):
        assert losses(after) == losses(before)[7:]


def test_the_final_accuracy_is_that_of_the_final_weights(tiny: Tiny, tmp_path: Path) -> None:
    """glm, whose limit is a number of samples between two evaluations."""
    limits = {"max_samples_termination": 700, "eval_interval_samples": 640, "initial_evaluation": False}
    (events,) = fork_ranks(partial(train, tiny("glm") | limits | {"num_workers": 0}), tmp_path, ranks=1)
    evaluations, finished = values(events, "EVALUATE"), events[-1].value
    assert [(value["step"], value["samples"]) for value in evaluations] == [(20, 640), (22, 704)]
    assert (finished["stop_reason"], finished["final_accuracy"]) == (
        "max_samples_termination",
        evaluations[-1]["accuracy"],
    )
    assert finished["eval_time"] == pytest.approx(sum(value["time"] for value in evaluations))
    assert finished["train_no_eval_time"] == pytest.approx(finished["raw_train_time"] - finished["eval_time"])


@pytest.mark.parametrize("case", PARAMETERS)
def test_bf16(tiny: Tiny, recorded: Recorded, tmp_path: Path, case: str) -> None:
    """Steps under autocast have nearly the losses of fp32."""
    config = tiny(case) | STEPS | {"max_steps": 3, "nproc": 2, "precision": "amp_bf16"}
    rounded, _ = map(losses, fork_ranks(partial(train, config), tmp_path))
    exact = losses(read_log(recorded(case) / "rank0/log0"))[:3]
    assert rounded == pytest.approx(exact, rel=ROUNDING.get(case, 0.03))
    assert rounded != exact
