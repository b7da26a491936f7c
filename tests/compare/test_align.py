"""Do the losses and the final metric of a training agree with those of its reference?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jobs_of import JOB, job

from flagperf.compare.align import Alignment, align, relative_error
from flagperf.compare.jobs import NamedJob
from flagperf.contract.perflog import Event
from flagperf.errors import ConfigError

LOSSES = {1: 4.0, 10: 2.0, 20: 1.0, 30: 0.8, 40: 0.5}


def training(folder: Path, losses: Mapping[int, float] = LOSSES, metric: float | None = 80.0, **more: Any) -> NamedJob:
    """A job of one round with these logged losses, and its log."""
    values = {"p_train": 100.0, **({} if metric is None else {"final_acc1": metric})}
    found = job(str(folder), **{"seed": 0, "values": values, **more})
    log = folder / JOB / "round1" / "node0_noderank0" / "rank0.out.log"
    log.parent.mkdir(parents=True)
    events = [Event("STEP_END", {"step": step, "loss": loss}) for step, loss in losses.items()]
    log.write_text("".join(f"{event.line()}\n" for event in events))
    return found


def times(factor: float, *steps: int) -> dict[int, float]:
    """The losses, with some of them multiplied."""
    return {step: loss * (factor if step in steps else 1) for step, loss in LOSSES.items()}


@pytest.mark.parametrize(
    ("other", "outcome", "why"),
    [
        pytest.param(
            {},
            "passed",
            "seed 0, 5 steps in common, mean error of the loss 0 %, each step within the band, final_acc1 off by 0 %",
            id="the same",
        ),
        pytest.param(
            {"losses": times(1.02, 20, 40), "metric": 80.4},
            "passed",
            "seed 0, 5 steps in common, mean error of the loss 0.8 %, step 20 is the first outside, by 2 %, "
            "final_acc1 off by 0.5 %",
            id="single steps outside, and the mean within",
        ),
        pytest.param(
            {"losses": times(0.9, 10)},
            "failed",
            "seed 0, 5 steps in common, mean error of the loss 2 %, step 10 is the first outside, by 10 %, "
            "final_acc1 off by 0 %",
            id="the loss outside",
        ),
        pytest.param(
            {"metric": 79.0},
            "failed",
            "seed 0, 5 steps in common, mean error of the loss 0 %, each step within the band, "
            "final_acc1 off by 1.25 %",
            id="the metric outside",
        ),
        pytest.param(
            {"losses": times(math.nan, 30)},
            "failed",
            "seed 0, 5 steps in common, mean error of the loss inf %, step 30 is the first outside, by inf %, "
            "final_acc1 off by 0 %",
            id="no number",
        ),
        pytest.param(
            {"metric": None},
            "undecided",
            "seed 0, 5 steps in common, mean error of the loss 0 %, each step within the band, "
            "final_acc1 not known of both",
            id="no metric",
        ),
        pytest.param(
            {"losses": {1: 4.0, 10: 2.0, 15: 1.5, 25: 0.9, 35: 0.7, 45: 0.5, 55: 0.4, 65: 0.3}},
            "undecided",
            "seed 0, 2 steps in common, mean error of the loss 0 %, each step within the band, final_acc1 off by 0 %, "
            "only the reference logged 3 steps (20, 30, 40), "
            "only the other logged 6 steps (15, 25, 35, 45, 55, …), 5 steps are needed: log_freq=1",
            id="too few steps in common",
        ),
        pytest.param(
            {"losses": {}},
            "undecided",
            "seed 0, 0 steps in common, final_acc1 off by 0 %, "
            "only the reference logged 5 steps (1, 10, 20, 30, 40), 5 steps are needed: log_freq=1",
            id="no log",
        ),
        pytest.param(
            {"losses": LOSSES | {50: 0.4}},
            "passed",
            "seed 0, 5 steps in common, mean error of the loss 0 %, each step within the band, final_acc1 off by 0 %, "
            "only the other logged 1 steps (50)",
            id="one went on",
        ),
    ],
)
def test_an_alignment(tmp_path: Path, other: dict[str, Any], outcome: str, why: str) -> None:
    (found,) = align(training(tmp_path / "a"), training(tmp_path / "b", **other), 0.01)
    said = found.decision
    assert (said.condition, said.pair, said.outcome, said.why) == (
        "align=1%",
        f"{tmp_path}/a/{JOB} → {tmp_path}/b/{JOB}",
        outcome,
        why,
    )


def test_a_case_without_a_target_has_its_losses(tmp_path: Path) -> None:
    (found,) = align(training(tmp_path / "a", target=None), training(tmp_path / "b", target=None), 0.01)
    assert (found.outcome, found.metric, found.metric_error) == ("passed", None, None)


@pytest.mark.parametrize(
    ("reference", "value", "expected"),
    [(2.0, 1.0, 0.5), (-2.0, -3.0, 0.5), (0.0, 0.0, 0.0), (0.0, 1e-9, math.inf), (1.0, math.nan, math.inf)],
)
def test_the_error_of_one_value(reference: float, value: float, expected: float) -> None:
    assert relative_error(reference, value) == expected


def rounds(of: NamedJob, *seeds: int) -> NamedJob:
    """The job with a round of each seed."""
    (first,) = of.summary.results
    results = tuple(replace(first, round=number, seed=seed) for number, seed in enumerate(seeds, start=1))
    return replace(of, summary=replace(of.summary, results=results))


def test_rounds_of_one_seed_belong_together(tmp_path: Path) -> None:
    reference, other = training(tmp_path / "a"), training(tmp_path / "b", losses=times(2, 1))
    found = align(rounds(reference, 3, 4, 5), rounds(other, 5, 3, 3), 0.01)
    assert [(one.seed, one.reference, one.other) for one in found] == [(5, {}, times(2, 1)), (3, LOSSES, {})]
    assert found[0].decision.why.endswith(
        "only one of them has a round that counts with seed 4, 5 steps are needed: log_freq=1"
    )


MAY_DIFFER: dict[str, dict[str, Any]] = {
    "vendor and hardware": {"config": {"vendor": {"name": "acme"}, "hardware": {"name": "chip"}}},
    "software": {"built": {"software": {"versions": {"torch": "3"}, "code": {"flagperf": "bb"}}}},
    "code of a vendor's own": {
        "config": {"extension": {"replaced": {"modules": "fast"}, "files": {}, "has_code": False, "proof": None}}
    },
    "what is written": {"config": {"log_freq": 5, "mutable": ["lr", "train_batch_size", "log_freq"]}},
    "hosts of as many devices": {"config": {"nnodes": 4, "nproc": 4}},
    "a card of four devices": {"config": {"nnodes": 1, "nproc": 64, "train_batch_size": 8}},
    "micro steps": {"config": {"nnodes": 1, "nproc": 4, "gradient_accumulation_steps": 4}},
    "ranks that share samples": {"config": {"nproc": 16, "parallel": {"mesh": {"dp_replicate": -1, "tp": 2}}}},
    "configured seed": {"config": {"seed": 3, "mutable": ["lr", "train_batch_size", "seed"]}},
}


@pytest.mark.parametrize("changed", MAY_DIFFER.values(), ids=MAY_DIFFER)
def test_what_may_differ(tmp_path: Path, changed: dict[str, Any]) -> None:
    (found,) = align(training(tmp_path / "a"), training(tmp_path / "b", **changed), 0.01)
    assert found.outcome == "passed"


@pytest.mark.parametrize(
    ("changed", "key", "given", "allowed"),
    [
        pytest.param({"config": {"lr": 0.2}}, "lr", "0.2", "0.1", id="a setting"),
        pytest.param({"seed": 1}, "seed", "1", "0", id="the seed"),
        pytest.param({"seed": None}, "seed", "not known", "0", id="no seed"),
    ],
)
def test_what_may_not_differ(tmp_path: Path, changed: dict[str, Any], key: str, given: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        align(training(tmp_path / "a"), training(tmp_path / "b", **changed), 0.01)
    assert str(caught.value) == (
        f"these trainings cannot be aligned: their computations differ\n  where:   {tmp_path}/b/{JOB}\n"
        f"  key:     {key}\n  given:   {given}\n  allowed: {allowed}, as in {tmp_path}/a/{JOB}\n"
        f"  do:      train again with the same {key}"
    )


@pytest.mark.parametrize(
    ("changed", "given"),
    [
        pytest.param({"nproc": 4}, "256: 8 x 1 x 32", id="devices"),
        pytest.param({"train_batch_size": 16}, "256: 16 x 1 x 16", id="batch"),
        pytest.param({"nproc": 4, "gradient_accumulation_steps": 4}, "1024: 8 x 4 x 32", id="micro steps"),
        pytest.param({"parallel": {"mesh": {"dp_replicate": -1, "tp": 2}}}, "256: 8 x 1 x 32", id="mesh"),
    ],
)
def test_samples_of_a_step_may_not_differ(tmp_path: Path, changed: dict[str, Any], given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        align(training(tmp_path / "a"), training(tmp_path / "b", config=changed), 0.01)
    assert str(caught.value) == (
        f"these trainings cannot be aligned: their computations differ\n  where:   {tmp_path}/b/{JOB}\n"
        f"  key:     samples of a step\n  given:   {given}\n  allowed: 512: 16 x 1 x 32, as in {tmp_path}/a/{JOB}\n"
        "  do:      train again with the same samples of a step (devices with data of their own x micro steps x "
        "train_batch_size)"
    )


def test_another_division_of_a_step_is_named(tmp_path: Path) -> None:
    other = training(tmp_path / "b", config={"nnodes": 1, "nproc": 64, "train_batch_size": 8})
    (found,) = align(training(tmp_path / "a"), other, 0.01)
    assert ", samples of a step 64 x 1 x 8, of the reference 16 x 1 x 32, " in found.decision.why


def test_unlike_jobs_are_refused_as_ever(tmp_path: Path) -> None:
    reference, other = training(tmp_path / "a"), training(tmp_path / "b", config={"precision": "fp32"})
    with pytest.raises(ConfigError, match="a narrower format is less work"):
        align(reference, other, 0.01)
    found: list[Alignment] = align(reference, other, 0.01, across=["precision"])
    assert [one.outcome for one in found] == ["passed"]
