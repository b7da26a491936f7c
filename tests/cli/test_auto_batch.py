"""`train_batch_size=auto`: real ranks on this machine's CPU, whose memory ends where a task says or a limit is set."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from flagperf_command import flagperf

ROOT = Path(__file__).parents[2]
JOB = "greedy-pytorch-cpux1x"
MIB = 128  # that the task holds for each sample
CASE = """\
# @package _global_
# flagperf --config-dir greedy model=greedy
defaults: [override /mutable: common]
case: greedy
unit: points
throughput_unit: points/s
train_batch_size: 2
eval_batch_size: 2
lr: 0.1
max_steps: 2
num_workers: 0
checkpoint_freq: 2
points: 64
held: 0                            # MiB a sample
fits: 1000                         # samples that the last rank has memory for
least: 1                           # samples that the network needs
network: {_target_: toy.network}
optimizer: {_target_: torch.optim.SGD, lr: "${lr}"}
task: {_target_: greedy.Greedy, held: "${held}", fits: "${fits}", least: "${least}"}
train_data: {_target_: toy.Points, count: "${points}"}
eval_data: {_target_: toy.Points, count: 4, seed: 8}
data: {name: points, sample: {_target_: greedy.no_files}}
"""
CODE = """\
import os
import toy
import torch


class Greedy(toy.Classification):
    def __init__(self, held, fits, least):
        self.held, self.fits, self.least = held, fits, least

    def loss(self, network, batch):
        samples = len(batch[1])
        if samples < self.least:
            raise ValueError("too few samples")
        if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1 and samples > self.fits:
            torch.empty(2**60, dtype=torch.uint8)  # which the allocator itself refuses
        held = torch.ones(samples * self.held, 2**18)
        return super().loss(network, batch) + 0 * held.sum()


def no_files(folder):
    pass
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with the case, and its code."""
    made = tmp_path_factory.mktemp("greedy")
    (made / "model").mkdir()
    (made / "model" / "greedy.yaml").write_text(CASE)
    (made / "greedy.py").write_text(CODE)
    return made


def greedy(folder: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given = ["--config-dir", str(folder), "model=greedy", "auto_batch.steps=2", f"result_dir={cwd}", *words]
    return flagperf(*given, cwd=cwd, PYTHONPATH=os.pathsep.join([str(folder), str(ROOT / "tests/trainer")]))


def tried(record: dict[str, Any]) -> dict[int, str]:
    """The sizes in the order in which they were tried, and why each does not fit."""
    return {one["size"]: one["note"] for one in record["tried"]}


@pytest.mark.slow
@pytest.mark.torch
def test_one_rank_without_memory_decides_for_all(folder: Path, tmp_path: Path) -> None:
    """A run that is resumed keeps the size."""
    done = greedy(folder, tmp_path, "nproc=2", "fits=1", "division=open", "train_batch_size=auto", "run_name=first")
    assert done.returncode == 0, done.stdout + done.stderr
    job = tmp_path / "first" / f"{JOB}2"
    summary = json.loads((job / "summary.json").read_text())
    assert (summary["batch"]["found"], tried(summary["batch"])) == (1, {2: "out of memory", 1: ""})
    (measured,) = [one["throughput"] for one in summary["batch"]["tried"] if not one["note"]]
    assert measured > 0
    (result,) = summary["results"]
    assert (result["verdict"], result["values"]["num_trained_samples"]) == ("VALID", 2 * 2 * 1)
    found = {"key": "train_batch_size", "before": 2, "after": 1, "source": "found by train_batch_size=auto"}
    assert found in summary["changes"]
    assert "  train_batch_size=2: out of memory\n" in done.stdout
    assert "  train_batch_size=auto: 1, the largest that takes no more than" in done.stdout
    report = (job.parent / "report.md").read_text()
    assert "lr was left as it is, 0.1:\n\n| train_batch_size | peak memory [GiB] | points/s | fits |\n" in report

    words = (
        "nproc=2",
        "fits=1",
        "division=open",
        "train_batch_size=auto",
        "run_name=second",
        f"resume={tmp_path}/first",
    )
    done = greedy(folder, tmp_path, *words, "max_steps=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  train_batch_size=auto: 1, as in the run that is resumed" in done.stdout
    summary = json.loads((tmp_path / "second" / f"{JOB}2" / "summary.json").read_text())
    assert (summary["config"]["train_batch_size"], summary["batch"]) == (1, None)


@pytest.mark.torch
@pytest.mark.slow
def test_only_sizes_that_give_the_samples_of_a_step(folder: Path, tmp_path: Path) -> None:
    """Six samples a step: 4 would fit, and is not tried."""
    words = ("fits=5", "division=open", "+global_batch_size=6", "gradient_accumulation_steps=auto")
    done = greedy(folder, tmp_path, *words, "train_batch_size=auto", "run_name=whole")
    assert done.returncode == 0, done.stdout + done.stderr
    job = tmp_path / "whole" / f"{JOB}1"
    summary = json.loads((job / "summary.json").read_text())
    assert (summary["batch"]["found"], tried(summary["batch"])) == (3, {2: "", 3: "", 6: "out of memory"})
    assert (summary["batch"]["sizes"], summary["config"]["gradient_accumulation_steps"]) == ([1, 2, 3, 6], 2)
    assert "; global_batch_size stays 6\n" in done.stdout
    report = (job.parent / "report.md").read_text()
    assert "global_batch_size was left as it is, 6:\n" in report


@pytest.mark.torch
@pytest.mark.slow
def test_a_limit_that_is_measured(folder: Path, tmp_path: Path) -> None:
    words = ("division=open", f"held={MIB}", "checkpoint_freq=null")
    done = greedy(folder, tmp_path, *words, "run_name=two")
    assert done.returncode == 0, done.stdout + done.stderr
    of_two = json.loads((tmp_path / "two" / f"{JOB}1" / "summary.json").read_text())["statistics"]["peak_memory"]["max"]
    limit = f"{of_two * 1024 + 2.5 * MIB:.0f}m"  # for two samples more, and half a one
    done = greedy(folder, tmp_path, *words, "train_batch_size=auto", f"auto_batch.limit={limit}", "run_name=auto")
    assert done.returncode == 0, done.stdout + done.stderr
    batch = json.loads((tmp_path / "auto" / f"{JOB}1" / "auto_batch.json").read_text())
    sizes = tried(batch)  # twice the first might be too much, and the line through it and its half says: 4
    assert (batch["found"], list(sizes)[:2], sizes[4]) == (4, [2, 1], "")


@pytest.mark.torch
@pytest.mark.slow
def test_not_even_the_fewest_samples_fit(folder: Path, tmp_path: Path) -> None:
    words = ("division=open", "least=2", "train_batch_size=auto", "auto_batch.limit=1m", "run_name=none")
    done = greedy(folder, tmp_path, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "flagperf: not even a batch of 2 fits: over the limit (" in done.stderr
    batch = json.loads((tmp_path / "none" / f"{JOB}1" / "auto_batch.json").read_text())
    assert (batch["found"], tried(batch)) == (
        None,
        {2: "over the limit", 1: "ValueError: too few samples (exit code 1)"},
    )
    assert "train_batch_size=auto found no size that fits" in (tmp_path / "none" / "report.md").read_text()
