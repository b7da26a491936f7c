"""No process is forked after the process group exists: gloo's threads would be missing in it, and their locks held."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import toy
import yaml
from torch import distributed

# Each rank of these tests has one core, and torch warns of more processes than cores.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

TRAININGS: dict[str, tuple[dict[str, Any], int]] = {
    "trains and evaluates": ({"initial_evaluation": True, "max_epochs": 3}, 4),
    "trains only": ({"eval_interval_epochs": None}, 2),
    "synthetic": ({"synthetic": True, "max_steps": 12}, 2),
}


def forks_after_the_group(run: dict[str, Any], folder: Path) -> list[bool]:
    """For each fork of a training: whether the process group existed."""
    forks: list[bool] = []
    os.register_at_fork(before=lambda: forks.append(distributed.is_initialized()))
    toy.train(run, folder)
    return forks


@pytest.mark.parametrize(("settings", "processes"), TRAININGS.values(), ids=TRAININGS.keys())
def test_all_forks_come_before_the_process_group(settings: dict[str, Any], processes: int, tmp_path: Path) -> None:
    run = toy.config(**settings, num_workers=2, nproc=2)
    assert toy.fork_ranks(partial(forks_after_the_group, run), tmp_path) == [[False] * processes] * 2


@pytest.mark.slow
@pytest.mark.timeout(60)  # about 5 s; a process that hangs ends it
def test_stress(tmp_path: Path) -> None:
    """Short jobs of two ranks, whose loaders fill while their collectives run: none hangs, and all agree."""
    run = toy.config(num_workers=4, nproc=2, max_epochs=2, initial_evaluation=True, eval_interval_steps=1)
    logs = [events for _ in range(8) for events in toy.fork_ranks(partial(toy.train, run), tmp_path)]
    found = [toy.losses(events) for events in logs]
    assert found == [found[0]] * 16


class Resting(toy.Points):
    """Shows by a file that it is asked for its first sample, and lets everybody wait."""

    def __init__(self, folder: str) -> None:
        super().__init__(64)
        self.file = Path(folder, "asked")

    def __getitem__(self, index: int) -> toy.Batch:
        self.file.touch()
        time.sleep(60)
        return super().__getitem__(index)


def test_a_rank_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    """Also where Python starts processes in another way than by forks, as Python 3.14 does."""
    (tmp_path / "sitecustomize.py").write_text("import multiprocessing\nmultiprocessing.set_start_method('spawn')\n")
    data = {"_target_": "test_forks.Resting", "folder": str(tmp_path)}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(toy.config(train_data=data, num_workers=2)), encoding="utf-8")
    environment = os.environ | {
        "FLAGPERF_LOG_DIR": str(tmp_path),
        "PYTHONPATH": f"{tmp_path}:{Path(toy.__file__).parent}:{Path(__file__).parent}",
    }
    rank = psutil.Popen([sys.executable, "-m", "flagperf.trainer", str(path)], env=environment)
    try:
        while not (tmp_path / "asked").exists():
            assert rank.poll() is None, (tmp_path / "rank0.out.log").read_text()
            time.sleep(0.05)
        processes = rank.children(recursive=True)
        assert len(processes) == 4
    finally:
        rank.send_signal(signal.SIGKILL)
        rank.wait()
    assert psutil.wait_procs(processes, timeout=10)[1] == []
