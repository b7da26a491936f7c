"""What goes on in a run, from files as they lie while it runs."""

from __future__ import annotations

import fcntl
import re
import shutil
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
