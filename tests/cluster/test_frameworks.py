"""The frameworks beside PyTorch on two hosts, each in its own environment: with docker, and over ssh without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from flagperf_run import OPEN, User, assert_nothing_left
from hosts import IMAGE, TestCluster

CASES = {"paddle": "bert", "tensorflow2": "resnet50"}
SMALL = ("size=tiny", "nnodes=2", "max_steps=3", "log_freq=1", "num_workers=0", "train_batch_size=8")
RUNTIMES = {
    "docker": ("runtime=docker", "vendor.image.{framework}.name=" + IMAGE, OPEN),
    "process": ("runtime=process",),
}


@pytest.mark.parametrize(
    ("framework", "runtime"),
    [
        pytest.param("paddle", "docker", marks=pytest.mark.paddle),
        pytest.param("paddle", "process", marks=[pytest.mark.paddle, pytest.mark.slow]),
        pytest.param("tensorflow2", "docker", marks=[pytest.mark.tensorflow2, pytest.mark.slow]),
        pytest.param("tensorflow2", "process", marks=[pytest.mark.tensorflow2, pytest.mark.slow]),
    ],
)
def test_a_training_on_two_hosts(lab: TestCluster, tmp_path: Path, framework: str, runtime: str) -> None:
    place = (word.format(framework=framework) for word in RUNTIMES[runtime])
    python = f"runtime.python={sys.prefix}-{framework}/bin/python"
    words = (f"model={CASES[framework]}", f"framework={framework}", *SMALL)
    done = User(lab, tmp_path).run(*place, python, *words)
    assert done.exit_code == 0, done.output
    name = f"{CASES[framework]}-{framework}-cpux2x1"
    result = done.result(name)
    assert (result["verdict"], result["values"]["global_steps"]) == ("VALID", 3)
    assert len({rank["parameters_checksum"] for rank in result["values"]["ranks"]}) == 1
    logs = {path.parent.name: path.name for path in (done.folder / name / "round1").glob("*/rank*.out.log")}
    assert logs == {"h1_noderank0": "rank0.out.log", "h2_noderank1": "rank1.out.log"}
    assert_nothing_left(lab)
