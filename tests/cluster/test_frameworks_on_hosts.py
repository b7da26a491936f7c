"""The frameworks beside PyTorch on two hosts, each in its own environment: with docker, or over ssh without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from flagperf_run import OPEN, Done, User, assert_nothing_left
from hosts import IMAGE, TestCluster

CASES = {"paddle": "bert", "tensorflow2": "resnet50", "mindspore": "resnet50"}
SMALL = ("size=tiny", "nnodes=2", "max_steps=3", "log_freq=1", "num_workers=0", "train_batch_size=8")
RUNTIMES = {
    "docker": ("runtime=docker", "vendor.image.{framework}.name=" + IMAGE, OPEN),
    "process": ("runtime=process",),
}
FAULTY = f"code_dir={Path(__file__).parents[1] / 'faults'}"


def train(lab: TestCluster, home: Path, framework: str, runtime: str, *words: str) -> Done:
    """A short training of the framework's tiny case, one rank on each of two hosts."""
    place = (word.format(framework=framework) for word in RUNTIMES[runtime])
    python = f"runtime.python={sys.prefix}-{framework}/bin/python"
    return User(lab, home).run(*place, python, f"model={CASES[framework]}", f"framework={framework}", *SMALL, *words)


@pytest.mark.parametrize(
    ("framework", "runtime"),
    [
        pytest.param("paddle", "docker", marks=pytest.mark.paddle),
        pytest.param("tensorflow2", "process", marks=[pytest.mark.tensorflow2, pytest.mark.slow]),
        pytest.param("mindspore", "docker", marks=[pytest.mark.mindspore, pytest.mark.slow]),
    ],
)
def test_a_training_on_two_hosts(lab: TestCluster, tmp_path: Path, framework: str, runtime: str) -> None:
    done = train(lab, tmp_path, framework, runtime)
    assert done.exit_code == 0, done.output
    name = f"{CASES[framework]}-{framework}-cpux2x1"
    result = done.result(name)
    assert (result["verdict"], result["values"]["global_steps"]) == ("VALID", 3)
    assert len({rank["parameters_checksum"] for rank in result["values"]["ranks"]}) == 1
    logs = {path.parent.name: path.name for path in (done.folder / name / "round1").glob("*/rank*.out.log")}
    assert logs == {"h1_noderank0": "rank0.out.log", "h2_noderank1": "rank1.out.log"}
    assert_nothing_left(lab)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "runtime", "rank", "who"),
    [
        pytest.param("paddle", "process", 0, "rank 0 on h1 (node rank 0)", marks=pytest.mark.paddle),
        pytest.param("tensorflow2", "docker", 1, "rank 1 on h2 (node rank 1)", marks=pytest.mark.tensorflow2),
    ],
)
def test_the_host_is_named_whose_rank_was_killed(
    lab: TestCluster, tmp_path: Path, framework: str, runtime: str, rank: int, who: str
) -> None:
    task = (f"task._target_=faulty.{framework}.Faulty", "+task.fault=kill", f"+task.rank={rank}", FAULTY, OPEN)
    done = train(lab, tmp_path, framework, runtime, *task, "max_steps=20")
    assert f"  failed  {who}: signal SIGKILL, during training\n" in done.output, done.output
    assert done.exit_code == 5
    assert_nothing_left(lab)
