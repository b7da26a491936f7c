"""Trainings of resnet50 on MindSpore, in processes of its own environment: ranks, resuming, what is refused."""

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

pytestmark = pytest.mark.mindspore

QUIET = ("model=resnet50", "target.value=100.0", "eval_interval_epochs=null", "log_freq=1", "eval_batch_size=180")
PARAMETERS = 271050  # of the tiny network
TIMED = ("throughput", "step_time", "data_wait", *FLAGPERF_RATES.values())


def train(folder: Path, *overrides: str, nproc: int = 1, resume: Path | None = None) -> list[list[Event]]:
    """Train the tiny case; the events of each rank."""
    return framework_environment.train(folder, "mindspore", *QUIET, *overrides, nproc=nproc, resume=resume)


def steps(events: Sequence[Event]) -> list[Mapping[str, Any]]:
    """The logged steps, without times."""
    return [
        {name: value for name, value in step.items() if name not in TIMED} for step in toy.values(events, "STEP_END")
    ]


def test_two_ranks_train_the_same_network(tmp_path: Path) -> None:
    """Twenty steps: the ranks' logs and parameters agree, and each evaluation sample counts once."""
    ranks = train(tmp_path / "run", "max_steps=20", "train_batch_size=8", "eval_interval_steps=20", nproc=2)
    assert steps(ranks[0]) == steps(ranks[1])
    assert toy.values(ranks[0], "EVALUATE")[0]["acc1"] == toy.values(ranks[1], "EVALUATE")[0]["acc1"]
    finished = ranks[0][-1].value
    assert len({rank["parameters_checksum"] for rank in finished["ranks"]}) == 1
    assert [rank["samples"] for rank in finished["ranks"]] == [160, 160]
    assert (finished["parameters"], finished["num_trained_samples"]) == (PARAMETERS, 320)
    assert finished["stop_reason"] == "max_steps"
    assert set(finished["versions"]) == {"flagperf", "python", "mindspore"}


def test_two_ranks_see_the_samples_of_one_that_accumulates(tmp_path: Path) -> None:
    """The same samples in each step, gradients averaged and clipped. Batch norm sees the same batches, too."""
    common = ("max_steps=3", "train_batch_size=8", "clip_grad=0.5")
    two = train(tmp_path / "two", *common, nproc=2)
    (one,) = train(tmp_path / "one", *common, "gradient_accumulation_steps=2")
    for step, wanted in zip(steps(two[0]), steps(one), strict=True):
        assert step == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "amp_fp16"])
def test_resumed_equals_uninterrupted(precision: str, tmp_path: Path) -> None:
    common = ("max_steps=4", "checkpoint_freq=2", "train_batch_size=8", "deterministic=true", f"precision={precision}")
    (whole,) = train(tmp_path / "whole", *common)
    (resumed,) = train(tmp_path / "resumed", *common, resume=first_checkpoint(tmp_path / "whole"))
    assert steps(resumed) == steps(whole)[2:]
    checksums = [events[-1].value["ranks"][0]["parameters_checksum"] for events in (whole, resumed)]
    assert checksums[0] == checksums[1]


def first_checkpoint(folder: Path) -> Path:
    """The folder of checkpoints, with the oldest alone in it."""
    oldest, *others = sorted((folder / "checkpoint").glob("step*.pt"))
    assert oldest.name == "step000000002.pt"
    for other in others:
        other.unlink()
    return oldest.parent


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param(
            ("max_steps=9", "lr=1e30", "train_batch_size=8"),
            "TrainingError: training diverged: the loss was ",
            id="diverged",
        ),
        pytest.param(
            ("compile=true", "max_steps=1"),
            "ConfigError: there is no such setting with MindSpore\n  where:   config.yaml\n"
            "  key:     compile\n  given:   True\n  allowed: false\n",
            id="no such setting",
        ),
        pytest.param(
            ("precision=amp_bf16", "max_steps=1"),
            "ConfigError: MindSpore's convolutions on a CPU have no such precision\n  where:   config.yaml\n"
            "  key:     precision\n  given:   amp_bf16\n  allowed: fp32, amp_fp16",
            id="no such precision",
        ),
    ],
)
def test_what_goes_wrong_is_named(overrides: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(Ended) as ended:
        train(tmp_path / "run", *overrides)
    assert message in str(ended.value)
