"""Trainings of resnet50 on TensorFlow 2, in processes of its own environment: ranks, resuming, what is refused."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import framework_environment
import pytest
import toy
from framework_environment import Ended
from PIL import Image

from flagperf.perflog import Event
from flagperf.trainer.records import FLAGPERF_RATES

pytestmark = pytest.mark.tensorflow2

QUIET = ("model=resnet50", "target.value=100.0", "eval_interval_epochs=null", "log_freq=1", "eval_batch_size=180")
TIMED = ("throughput", "step_time", "data_wait", *FLAGPERF_RATES.values())


def train(folder: Path, *overrides: str, nproc: int = 1, resume: Path | None = None) -> list[list[Event]]:
    """Train the tiny case; the events of each rank."""
    return framework_environment.train(folder, "tensorflow2", *QUIET, *overrides, nproc=nproc, resume=resume)


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
    assert (finished["parameters"], finished["num_trained_samples"]) == (4641994, 320)
    assert finished["stop_reason"] == "max_steps"
    assert finished["example_flops"] == 35004416  # what PyTorch's counter finds, conf/fingerprint/resnet50.yaml
    assert set(finished["versions"]) == {"flagperf", "keras", "python", "tensorflow"}
    assert toy.values(ranks[0], "BUILT")[0]["software"]["modules"] == {}


def test_two_ranks_see_the_samples_of_one_that_accumulates(tmp_path: Path) -> None:
    """The same samples in each step, gradients averaged and clipped. Batch norm sees the same batches, too."""
    common = ("max_steps=3", "train_batch_size=8", "clip_grad=0.5")
    two = train(tmp_path / "two", *common, nproc=2)
    (one,) = train(tmp_path / "one", *common, "gradient_accumulation_steps=2")
    for step, wanted in zip(steps(two[0]), steps(one), strict=True):
        assert step == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "amp_bf16", "amp_fp16"])
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
            "ConfigError: there is no such setting with TensorFlow\n  where:   config.yaml\n"
            "  key:     compile\n  given:   True\n  allowed: false\n",
            id="no such setting",
        ),
    ],
)
def test_what_goes_wrong_is_named(overrides: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(Ended) as ended:
        train(tmp_path / "run", *overrides)
    assert message in str(ended.value)


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for split, number in itertools.product(("train", "val"), range(4)):
        path = tmp_path / "data" / split / "a" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (number, 0, 0)).save(path)
    broken = tmp_path / "data/train/a/2.png"
    broken.write_bytes(b"no image")
    with pytest.raises(Ended) as ended:
        train(tmp_path / "run", f"data_dir={tmp_path}/data", "train_batch_size=4", "max_steps=1")
    said = (
        "ConfigError: cannot read an image of the data set\n"
        f"  where:   {broken}\n"
        "  given:   Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required.\n"
        "  do:      replace it by a good copy, or remove it; the archive's checksum tells whether others are damaged\n"
    )
    assert said in str(ended.value)


LEAVING = """
import json, os, sys
rank = 1 if os.fork() == 0 else 0
cluster = {"cluster": {"worker": sys.argv[1:]}, "task": {"type": "worker", "index": rank}}
os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "TF_CONFIG": json.dumps(cluster)}
from flagperf.trainer.tensorflow2.ranks import World
world = World.of().connected("gloo", 100)
world.wait()
if rank == 1:
    os._exit(0)
world.leave()
print("all were here", flush=True)
os._exit(0)
"""


def test_a_rank_leaves_though_another_has_gone_meanwhile() -> None:
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        places = [f"127.0.0.1:{free.getsockname()[1]}" for free in (one, other)]
    done = framework_environment.run("tensorflow2", "-c", LEAVING, *places)
    assert (done.stdout, done.returncode) == ("all were here\n", 0), done.stderr
