"""One rank as a process: where its output goes and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toy
import yaml

ENDS: dict[str, tuple[dict[str, Any], int, str]] = {
    "configuration refused": (
        {"network": {"_target_": "torch.nn.Linnear"}},
        2,
        "ConfigError: no such class or function\n"
        "  where:   config.yaml\n"
        "  key:     network._target_\n"
        "  given:   torch.nn.Linnear\n"
        "  do:      python -c 'from torch.nn import Linnear' says why\n",
    ),
    "training raises": (
        {"task": {"_target_": "test_process.Failing"}},
        1,
        "ZeroDivisionError: integer division or modulo by zero\n",
    ),
}


class Failing(toy.Classification):
    """Raises in the second step, after output of its own."""

    calls = 0

    def loss(self, *_: Any) -> Any:
        self.calls += 1
        print("step", self.calls)
        return super().loss(*_) * (1 // (2 - self.calls))


@pytest.mark.parametrize(("settings", "status", "text"), ENDS.values(), ids=ENDS.keys())
def test_ends(settings: dict[str, Any], status: int, text: str, tmp_path: Path) -> None:
    done = toy.start(toy.config(**settings), tmp_path, python=Path(__file__).parent)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
    log = (tmp_path / "rank0.out.log").read_text()
    assert text in log
    assert ("Traceback" in log) == (status == 1)
    assert [event.event for event in toy.read_log(tmp_path / "rank0.out.log")][:2] == ["SUBMIT_INFO", "INIT_START"]
    if status == 1:  # output of the code itself is in order among the events
        assert log.index("step 1\n") < log.index("STEP_BEGIN") < log.index("Traceback")


def run(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The module itself, which stops before it needs torch."""
    command = [sys.executable, "-m", "flagperf.trainer", *argv]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60)


def test_wrong_usage(tmp_path: Path) -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ConfigError: usage: python -m flagperf.trainer config.yaml\n")
    done = run(str(tmp_path / "nowhere.yaml"))
    assert done.returncode == 2
    assert f"cannot read the configuration\n  where:   {tmp_path}/nowhere.yaml\n" in done.stderr
    (tmp_path / "list.yaml").write_text("[1, 2]")
    assert run(str(tmp_path / "list.yaml")).stderr.startswith("ConfigError: the configuration is no mapping\n")


def test_output_is_appended_to_the_log_of_the_rank(tmp_path: Path) -> None:
    (tmp_path / "rank5.out.log").write_text("before\n")
    done = run("/nowhere.yaml", FLAGPERF_LOG_DIR=str(tmp_path), RANK="5")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    lines = (tmp_path / "rank5.out.log").read_text().splitlines()
    assert lines[:2] == ["before", "ConfigError: cannot read the configuration"]


def test_log_folder_that_cannot_be_written(tmp_path: Path) -> None:
    done = run("/nowhere.yaml", FLAGPERF_LOG_DIR=str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "nowhere/rank0.out.log" in done.stderr


def test_full_disk_ends_the_training(tmp_path: Path) -> None:
    """/dev/full refuses every byte, as a full disk does: no hang, no success."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(toy.config()), encoding="utf-8")
    (tmp_path / "rank0.out.log").symlink_to("/dev/full")
    done = run(str(path), FLAGPERF_LOG_DIR=str(tmp_path), PYTHONPATH=str(Path(toy.__file__).parent))
    assert done.returncode == 1
