"""Trainings of the frameworks beside PyTorch, each in processes of its own environment: ranks, resuming, refusals."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import framework_environment
import pytest
import toy
import yaml
from framework_environment import Ended, configured
from PIL import Image

from flagperf.contract.perflog import Event
from flagperf.trainer.loop.records import FLAGPERF_RATES

NO_EVALUATION = tuple(f"eval_interval_{unit}=null" for unit in ("steps", "micro_steps", "samples", "epochs"))
IMAGES = ("model=resnet50", "target.value=100.0", *NO_EVALUATION, "log_freq=1", "eval_batch_size=180")
TEXTS = ("model=bert", "initial_evaluation=false", *NO_EVALUATION, "log_freq=1", "eval_batch_size=256", "warmup=0")
DROPOUT = ("network.config.hidden_dropout_prob=0.1", "network.config.attention_probs_dropout_prob=0.1")
STEPS = ("max_steps=4", "train_batch_size=8", "clip_grad=0.5", "eval_interval_steps=4")
TIMED = ("throughput", "step_time", "data_wait", "communication_wait", "own_time", *FLAGPERF_RATES.values())


@dataclass(frozen=True)
class Framework:
    """One of them, with its case, and what the case's trainings must show."""

    name: str
    case: tuple[str, ...]
    parameters: int
    example_flops: int  # what PyTorch's counter finds for the same network, conf/fingerprint/
    packages: tuple[str, ...]
    evaluates_alike: tuple[str, ...]  # metrics that one rank finds as two do; batch norm of two keeps other statistics
    resumed: tuple[str, ...]  # settings of a training that is resumed: with more state than weights and optimizer
    diverging: tuple[str, ...]
    refused: Mapping[str, str]  # override → the refusal


def no_such_setting(title: str) -> dict[str, str]:
    message = f"there is no such setting with {title}\n  where:   config.yaml\n  key:     compile\n"
    return {"compile=true": f"{message}  given:   True\n  allowed: false"}


PADDLE = Framework(
    name="paddle",
    case=TEXTS,
    parameters=79386,
    example_flops=4783360,
    packages=("paddlepaddle",),
    evaluates_alike=("mlm_accuracy", "eval_loss"),
    resumed=DROPOUT,
    diverging=("lr=1e30", "clip_grad=null"),
    refused={
        **no_such_setting("PaddlePaddle"),
        "precision=amp_fp16": "PaddlePaddle has mixed precision on accelerators only\n  where:   config.yaml\n"
        "  key:     precision\n  given:   amp_fp16\n  allowed: fp32 on a CPU",
    },
)
TENSORFLOW2 = Framework(
    name="tensorflow2",
    case=IMAGES,
    parameters=4641994,
    example_flops=35004416,
    packages=("keras", "tensorflow"),
    evaluates_alike=(),
    resumed=("precision=amp_fp16", "deterministic=true"),
    diverging=("lr=1e30", "precision=amp_bf16"),
    refused=no_such_setting("TensorFlow"),
)
MINDSPORE = Framework(
    name="mindspore",
    case=IMAGES,
    parameters=271050,
    example_flops=1130496,
    packages=("mindspore",),
    evaluates_alike=(),
    resumed=("precision=amp_fp16", "deterministic=true"),
    diverging=("lr=1e30",),
    refused={
        **no_such_setting("MindSpore"),
        "precision=amp_bf16": "MindSpore's convolutions on a CPU have no such precision\n  where:   config.yaml\n"
        "  key:     precision\n  given:   amp_bf16\n  allowed: fp32, amp_fp16",
    },
)
EACH = pytest.mark.parametrize(
    "framework",
    [pytest.param(one, id=one.name, marks=getattr(pytest.mark, one.name)) for one in (PADDLE, TENSORFLOW2, MINDSPORE)],
)
TwoRanks = Callable[[Framework], list[list[Event]]]


def train(framework: Framework, folder: Path, *overrides: str, **how: Any) -> list[list[Event]]:
    """Train its tiny case; the events of each rank."""
    return framework_environment.train(folder, framework.name, *framework.case, *overrides, **how)


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> TwoRanks:
    """The events of a framework's two ranks, which train once for all tests and workers."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    return lambda framework: framework_environment.once(
        folder / framework.name, lambda place: train(framework, place, *STEPS, nproc=2)
    )


def steps(events: Sequence[Event]) -> list[Mapping[str, Any]]:
    """The logged steps, without times."""
    return [
        {name: value for name, value in step.items() if name not in TIMED} for step in toy.values(events, "STEP_END")
    ]


@EACH
def test_two_ranks_train_the_same_network(two_ranks: TwoRanks, framework: Framework) -> None:
    """The ranks' logs and parameters agree, and each evaluation sample counts once."""
    first, second = two_ranks(framework)
    assert steps(first) == steps(second)
    (evaluated,), (other,) = (toy.values(events, "EVALUATE") for events in (first, second))
    assert {**evaluated, "time": None} == {**other, "time": None}
    finished = first[-1].value
    assert len({rank["parameters_checksum"] for rank in finished["ranks"]}) == 1
    assert [rank["samples"] for rank in finished["ranks"]] == [32, 32]
    assert (finished["parameters"], finished["num_trained_samples"]) == (framework.parameters, 64)
    assert finished["stop_reason"] == "max_steps"
    assert finished["example_flops"] == framework.example_flops
    assert set(finished["versions"]) == {"flagperf", "python", *framework.packages}
    assert toy.values(first, "BUILT")[0]["software"]["modules"] == {}


@EACH
def test_two_ranks_see_the_samples_of_one_that_accumulates(
    two_ranks: TwoRanks, tmp_path: Path, framework: Framework
) -> None:
    """The same samples in each step, gradients averaged and clipped. Batch norm sees the same batches, too."""
    two = two_ranks(framework)[0]
    (one,) = train(framework, tmp_path / "one", *STEPS, "gradient_accumulation_steps=2")
    for step, wanted in zip(steps(two), steps(one), strict=True):
        trained = {name: value for name, value in wanted.items() if not name.startswith("eval_")}
        assert {name: step[name] for name in trained} == pytest.approx(trained, rel=1e-3)
    (found,), (wanted,) = (toy.values(events, "EVALUATE") for events in (two, one))
    for name in framework.evaluates_alike:
        assert found[name] == pytest.approx(wanted[name], rel=1e-3)


@pytest.mark.paddle
def test_two_ranks_see_the_samples_of_one_batch(two_ranks: TwoRanks, tmp_path: Path) -> None:
    """Different numbers of masked words, and equally many pairs: the loss has both means of the whole step."""
    (one,) = train(PADDLE, tmp_path / "one", *STEPS[:1], "train_batch_size=16", *STEPS[2:])
    for step, wanted in zip(steps(two_ranks(PADDLE)[0]), steps(one), strict=True):
        assert step == pytest.approx(wanted, rel=1e-5)


@EACH
def test_resumed_equals_uninterrupted(tmp_path: Path, framework: Framework) -> None:
    common = ("max_steps=4", "train_batch_size=8", *framework.resumed)
    (whole,) = train(framework, tmp_path / "whole", *common, "checkpoint_freq=2")
    (resumed,) = train(framework, tmp_path / "resumed", *common, resume=first_checkpoint(tmp_path / "whole"))
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


@EACH
def test_that_a_training_diverged_is_named(tmp_path: Path, framework: Framework) -> None:
    with pytest.raises(Ended, match="TrainingError: training diverged: the loss was "):
        train(framework, tmp_path / "run", "max_steps=9", "train_batch_size=8", *framework.diverging)


BUILD = """
import importlib, json, sys
import yaml
from flagperf.errors import ConfigError
engine = importlib.import_module(f"flagperf.trainer.{sys.argv[1]}.entry").engine
for path in sys.argv[2:]:
    try:
        engine(yaml.safe_load(open(path)))
    except ConfigError as error:
        print(json.dumps(str(error)))
"""


@EACH
def test_what_the_framework_cannot_is_refused(tmp_path: Path, framework: Framework) -> None:
    files = [tmp_path / f"{number}.yaml" for number in range(len(framework.refused))]
    for file, override in zip(files, framework.refused, strict=True):
        file.write_text(yaml.safe_dump(configured(framework.name, *framework.case, override)))
    done = framework_environment.run(framework.name, "-c", BUILD, framework.name, *files)
    assert done.returncode == 0, done.stderr
    assert list(map(yaml.safe_load, done.stdout.splitlines())) == list(framework.refused.values())


@pytest.mark.tensorflow2
def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for split, number in itertools.product(("train", "val"), range(4)):
        path = tmp_path / "data" / split / "a" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (number, 0, 0)).save(path)
    broken = tmp_path / "data/train/a/2.png"
    broken.write_bytes(b"no image")
    with pytest.raises(Ended) as ended:
        train(TENSORFLOW2, tmp_path / "run", f"data_dir={tmp_path}/data", "train_batch_size=4", "max_steps=1")
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
world = World.of().join("gloo", 100)
world.wait()
if rank == 1:
    os._exit(0)
world.leave()
print("all were here", flush=True)
os._exit(0)
"""


@pytest.mark.tensorflow2
def test_a_rank_leaves_though_another_has_gone_meanwhile() -> None:
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        places = [f"127.0.0.1:{free.getsockname()[1]}" for free in (one, other)]
    done = framework_environment.run("tensorflow2", "-c", LEAVING, *places)
    assert (done.stdout, done.returncode) == ("all were here\n", 0), done.stderr
