"""Trainings of bert on PaddlePaddle, in processes of its own environment: ranks, resuming, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import framework_environment
import pytest
import toy
from framework_environment import Ended

from flagperf.perflog import Event
from flagperf.trainer.records import FLAGPERF_RATES

pytestmark = pytest.mark.paddle

NO_EVALUATION = [f"eval_interval_{unit}=null" for unit in ("steps", "micro_steps", "samples", "epochs")]
SHORT = ("initial_evaluation=false", *NO_EVALUATION, "log_freq=1", "eval_batch_size=256")
DROPOUT = ("network.config.hidden_dropout_prob=0.1", "network.config.attention_probs_dropout_prob=0.1")
TIMED = ("throughput", "step_time", "data_wait", *FLAGPERF_RATES.values())


def train(folder: Path, *overrides: str, nproc: int = 1, resume: Path | None = None) -> list[list[Event]]:
    """Train the tiny case; the events of each rank."""
    return framework_environment.train(folder, "paddle", "model=bert", *SHORT, *overrides, nproc=nproc, resume=resume)


def steps(events: Sequence[Event]) -> list[Mapping[str, Any]]:
    """The logged steps, without times."""
    return [
        {name: value for name, value in step.items() if name not in TIMED} for step in toy.values(events, "STEP_END")
    ]


def test_two_ranks_train_as_one_that_accumulates(tmp_path: Path) -> None:
    """The same samples in each step, gradients averaged and clipped, and each evaluation sample once."""
    common = ("max_steps=4", "train_batch_size=8", "clip_grad=0.5", "eval_interval_steps=4", "warmup=0", "lr=0.003")
    two = train(tmp_path / "two", *common, nproc=2)
    (one,) = train(tmp_path / "one", *common, "gradient_accumulation_steps=2")
    assert steps(two[0]) == steps(two[1])
    for step, wanted in zip(steps(two[0]), steps(one), strict=True):
        assert step == pytest.approx(wanted, rel=1e-3)
    for name in ("mlm_accuracy", "eval_loss"):
        (given,), (wanted,) = (toy.values(events, "EVALUATE") for events in (two[0], one))
        assert given[name] == pytest.approx(wanted[name], rel=1e-3)
    finished = two[0][-1].value
    assert len({rank["parameters_checksum"] for rank in finished["ranks"]}) == 1
    assert [rank["samples"] for rank in finished["ranks"]] == [32, 32]
    assert (finished["parameters"], finished["num_trained_samples"]) == (79386, 64)
    assert finished["stop_reason"] == "max_steps"
    assert finished["example_flops"] == 4783360  # what PyTorch's counter finds, conf/fingerprint/bert.yaml
    assert set(finished["versions"]) == {"flagperf", "paddlepaddle", "python"}


def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    (whole,) = train(tmp_path / "whole", *DROPOUT, "max_steps=6", "checkpoint_freq=3")
    (resumed,) = train(tmp_path / "resumed", *DROPOUT, "max_steps=6", resume=first_checkpoint(tmp_path / "whole"))
    assert steps(resumed) == steps(whole)[3:]
    checksums = [events[-1].value["ranks"][0]["parameters_checksum"] for events in (whole, resumed)]
    assert checksums[0] == checksums[1]


def first_checkpoint(folder: Path) -> Path:
    """The folder of checkpoints, with the oldest alone in it."""
    oldest, *others = sorted((folder / "checkpoint").glob("step*.pt"))
    assert oldest.name == "step000000003.pt"
    for other in others:
        other.unlink()
    return oldest.parent


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param(
            ("max_steps=9", "lr=1e30", "clip_grad=null"),
            "TrainingError: training diverged: the loss was ",
            id="diverged",
        ),
        pytest.param(
            ("precision=amp_fp16",),
            "ConfigError: PaddlePaddle has mixed precision on accelerators only\n  where:   config.yaml\n"
            "  key:     precision\n  given:   amp_fp16\n  allowed: fp32 on a CPU\n",
            id="mixed precision on the CPU",
        ),
        pytest.param(
            ("compile=true",),
            "ConfigError: there is no such setting with PaddlePaddle\n  where:   config.yaml\n"
            "  key:     compile\n  given:   True\n  allowed: false\n",
            id="no such setting",
        ),
    ],
)
def test_what_goes_wrong_is_named(overrides: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(Ended) as ended:
        train(tmp_path / "run", *overrides)
    assert message in str(ended.value)
