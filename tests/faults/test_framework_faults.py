"""Faults in real trainings of a case on each framework: a killed rank on all of them, each other fault on one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_faults import HOST, TWO_NODES, launch

MODELS = {"pytorch": "resnet50", "paddle": "bert", "tensorflow2": "resnet50", "mindspore": "resnet50"}
MARKS = {
    "pytorch": [pytest.mark.torch, pytest.mark.slow],
    "paddle": pytest.mark.paddle,
    "tensorflow2": pytest.mark.tensorflow2,
    "mindspore": pytest.mark.mindspore,
}
SMALL = ("size=tiny", "division=open", "train_batch_size=4", "num_workers=0", "log_freq=1", "max_steps=20")
HERE = rf"on {HOST} \(node rank 0\): "


@dataclass(frozen=True)
class Case:
    """A fault of a rank, the frameworks that it is tried on, and an expression for the cause that the user reads."""

    fault: str
    rank: int
    cause: str
    frameworks: tuple[str, ...]
    words: tuple[str, ...] = ()


CASES = {
    "the first rank is killed": Case("kill", 0, rf"rank 0 {HERE}signal SIGKILL", tuple(MODELS)),
    "a rank raises": Case(
        "raise", 1, rf"rank 1 {HERE}RuntimeError: the workload fails as it was told \(exit code 1\)", ("tensorflow2",)
    ),
    "a rank is killed on the second of two nodes": Case(
        "kill", 1, r"rank 1 on right \(node rank 1\): signal SIGKILL", ("mindspore",), TWO_NODES
    ),
    "a rank hangs": Case(
        "hang",
        1,
        rf"rank 1 {HERE}hang: no progress for 4 s \(deadlines.stall\)",
        ("paddle",),
        ("deadlines.stall=4",),
    ),
    "the loss is no number, of all ranks at once": Case(
        "diverge",
        1,
        rf"rank [01] {HERE}TrainingError: training diverged: the loss was nan at step 1 \(exit code 1\)",
        ("pytorch",),
    ),
}
EACH = [
    pytest.param(framework, case, id=f"{name}-{framework}", marks=MARKS[framework])
    for name, case in CASES.items()
    for framework in case.frameworks
]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sample data, written by the first training that needs it."""
    return tmp_path_factory.mktemp("samples")


@pytest.mark.parametrize(("framework", "case"), EACH)
def test_a_fault_is_named_on_each_framework(tmp_path: Path, samples: Path, framework: str, case: Case) -> None:
    task = (f"task._target_=faulty.{framework}.Faulty", f"+task.fault={case.fault}", f"+task.rank={case.rank}")
    model = (f"model={MODELS[framework]}", f"framework={framework}", f"sample_dir={samples}")
    flagperf = launch(tmp_path / "run", *model, *SMALL, *task, *case.words)
    code, output = flagperf.wait()
    assert re.search(f"  failed  {case.cause}, during training\n", output), output
    assert (code, flagperf.left()) == (5, [])


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "words"),
    [
        pytest.param(1, (), id="parameters divided over two"),
        pytest.param(1, ("parallel.mesh.tp=2",), id="layers divided over two"),
        pytest.param(1, ("parallel.mesh.pp=2", "train_batch_size=8"), id="stages of a pipeline"),
        pytest.param(
            2, ("nproc=4", "parallel.mesh.tp=2", "train_batch_size=8"), id="parameters and layers, each over two"
        ),
    ],
)
def test_a_rank_that_divides_the_work_is_killed(
    tmp_path: Path, samples: Path, rank: int, words: tuple[str, ...]
) -> None:
    """Its fellows wait for parameters, gradients or activations; it is named, and nothing is left."""
    task = ("task._target_=faulty.pytorch.FaultyText", "+task.fault=kill", f"+task.rank={rank}")
    flagperf = launch(tmp_path / "run", "model=llama3_8b", f"sample_dir={samples}", *SMALL, *task, *words)
    code, output = flagperf.wait()
    assert re.search(f"  failed  rank {rank} {HERE}signal SIGKILL, during training\n", output), output
    assert (code, flagperf.left()) == (5, [])


@pytest.mark.torch
@pytest.mark.slow
def test_a_slow_and_late_rank_is_named_during_the_run_and_afterwards(tmp_path: Path) -> None:
    """It needs twice as long from step 101 on, so that other work on the machine does not hide it."""
    slow = ("task.rank=1", "task.seconds=0.1", "task.share=1", "task.once=11")
    flagperf = launch(tmp_path / "run", "model=slow", f"data_dir={tmp_path}", *slow)
    code, output = flagperf.wait()
    assert code == 0, output
    (job,) = flagperf.folder.glob("slow-*")
    result = json.loads((job / "round1" / "result.json").read_text())
    ((slow,), (late,)) = result["slow_ranks"], result["late_ranks"]
    assert (slow["rank"], slow["host"], 81 <= slow["first_step"] <= 111) == (1, HOST, True)
    assert (late["rank"], late["host"], late["seconds"] > 5) == (1, HOST, True)
    during, _, _ = flagperf.run_log().partition("]stop ")
    report = (flagperf.folder / "report.md").read_text()
    slow_rank = f"rank 1 on {HOST} is slow: its own part of a step took "
    not_arrived, waited_for = f"rank 1 on {HOST} has not arrived in ", f"s for rank 1 on {HOST}, in steps 91 to 100"
    assert [text in during for text in (slow_rank, not_arrived, waited_for)] == [True] * 3
    assert [text in output for text in (slow_rank, not_arrived, waited_for)] == [True] * 3
    assert [text in report for text in (slow_rank, waited_for)] == [True] * 2
