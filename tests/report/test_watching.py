"""What goes on in a run, from files as they lie while it runs."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from example_results import make_run

from flagperf.cli.main import run_command
from flagperf.report.files import read_run
from flagperf.results import result, summary

JOB = "resnet50-pytorch-A100x2x8"
LOG = "2026-11-22 06:10:11,035\t[INFO]\t[progress.py,130]{}\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two rounds, of which the second goes on; another job waits."""
    job = make_run(tmp_path / "run", repeat=2)
    (tmp_path / "run" / "flagperf_run.log").write_text("".join(LOG.format(f"said {n}") for n in range(6)))
    (job / "round2" / result.FILE).unlink()
    node = job / "round2" / "node0_noderank0"
    text = (node / "rank0.out.log").read_text().splitlines(keepends=True)
    (node / "rank0.out.log").write_text("".join(line for line in text if not re.search("TRAIN_END|FINISHED", line)))
    (node / "rank1.out.log").write_text("loading\n\nstill loading\ntorn")
    (node / "cpu_monitor.log").write_text("2025-01-31-14:05:09\t0.25\n2025-01-31-14:05:14\t0.5\n")
    (node / "nvidia_monitor.log").write_text("2025-01-31-14:05:09\n31C 57W 15MiB 40536MiB 0%\n\n")
    waiting = tmp_path / "run" / "bert-pytorch-A100x2x8"
    waiting.mkdir()
    shutil.copy(job / "config.yaml", waiting)
    return tmp_path / "run"


def watched(run: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run_command(["watch", str(run)]) == 0
    return [re.sub(r"\d\d:\d\d:\d\d", "TIME", line) for line in capsys.readouterr().out.splitlines()]


def test_a_run_that_goes_on(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (run / "flagperf_run.log").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        said = watched(run, capsys)
    assert said == [
        f"{run}: goes on, TIME",
        "",
        "bert-pytorch-A100x2x8: its turn has not come",
        f"{JOB}: round 2 of 2",
        "  step 100  loss 0.5  250.0 images/s  (max_epochs 100)",
        "  evaluated at step 100  acc1 95.5 (target 95)",
        "  node 0: CPU busy 50 %  nvidia: 31C 57W 15MiB 40536MiB 0%",
        "  rank 0: EVALUATE of step 100",
        "  rank 1: still loading",
        *(f"  rank {rank}: FINISHED" for rank in range(2, 16)),
        "",
        *(f"said {number}" for number in range(2, 6)),
    ]


def as_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def with_config(text: str) -> Callable[[Path], object]:
    return lambda run: (run / JOB / "config.yaml").write_text(text)


def with_log(name: str, change: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda run: change(run / JOB / "round2/node0_noderank0" / name)


def event(name: str, **value: object) -> Callable[[Path], object]:
    """A log whose last event is this one."""
    metadata = {"file": "", "lineno": 1, "time_ms": 1, "rank": 0}
    line = "[PerfLog] " + json.dumps({"event": name, "value": value, "metadata": metadata})
    return lambda path: path.write_text(f"{path.read_text()}{line}\n")


ODD: dict[str, tuple[Callable[[Path], object], str]] = {  # a change of the run, and a line that stays or is added
    "the run's log is a folder": (
        lambda run: as_folder(run / "flagperf_run.log"),
        "  {run}/flagperf_run.log cannot be read: not a regular file",
    ),
    "the run's log is no text": (lambda run: (run / "flagperf_run.log").write_bytes(b"\xff\n\x1b]0;x\x07\n"), "�"),
    "a rank's log is a folder": (with_log("rank1.out.log", as_folder), "  rank 2: FINISHED"),
    "a folder beside the rounds": (lambda run: (run / JOB / "round_of_mine").mkdir(), "  rank 1: still loading"),
    "a round without a number": (lambda run: (run / JOB / "round").mkdir(), "  rank 1: still loading"),
    "a configuration that contains itself": (with_config("a: &a [*a]"), "  rank 1: still loading"),
    "a deep configuration": (with_config("[" * 5000), "  rank 1: still loading"),
    "a target that is text": (with_config("target: acc1\nnproc: many\n"), "  rank 1: still loading"),
    "a step without fields": (with_log("rank0.out.log", event("STEP_END", step=7)), "  rank 1: still loading"),
    "an evaluation of text": (with_log("rank0.out.log", event("EVALUATE", acc1="good")), "  rank 1: still loading"),
    "a summary that is a folder": (lambda run: (run / JOB / "summary.json").mkdir(), "said 5"),
}


@pytest.mark.parametrize(("change", "line"), ODD.values(), ids=ODD.keys())
def test_an_odd_file_costs_only_its_lines(
    change: Callable[[Path], object], line: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(run)
    assert line.format(run=run) in watched(run, capsys)


def test_a_run_that_has_ended(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(run / "bert-pytorch-A100x2x8")
    (done,) = read_run(run)
    summary.write(done, run / JOB)
    assert run_command(["watch", str(run)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{run}: has ended, 2026-11-22 06:10:11"
    assert said[2].startswith(f"{JOB}: INVALID  177.8 images/s  ")


def test_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["watch", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"flagperf: no run in this folder\n  where:   command line\n  given:   {tmp_path}\n"
        "  do:      give a folder such as result/run20260101-120000; flagperf list runs shows them\n"
    )


def test_two_folders(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["watch", "a", "b"]) == 2
    assert capsys.readouterr().err == (
        "flagperf: watch takes one run folder\n  where:   command line\n  given:   a b\n"
        "  do:      flagperf watch RUN_DIR\n"
    )
