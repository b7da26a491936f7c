"""`restarts=N`: runs of the command line whose ranks are killed, and which go on from their checkpoints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_faults import HOST, launch

OPEN = ("division=open", "checkpoint_freq=2")
KILLED = ("task.fault=kill", "task.rank=0")  # the rank with the checkpoints
TWICE = ("cluster=spare", "nnodes=2", "nproc=1", "task.times=2")


def restarts_of(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """result.json of the round, and its restarts without times."""
    (path,) = folder.glob("*/round1/result.json")
    result = json.loads(path.read_text())
    kept = ("hosts", "next_step", "last_step")
    return result, [
        {**{name: each[name] for name in kept}, "rank": each["failure"]["rank"]} for each in result["restarts"]
    ]


@pytest.mark.slow
def test_a_killed_rank_is_started_again(tmp_path: Path) -> None:
    flagperf = launch(tmp_path / "run", *KILLED, "task.times=1", "restarts=1", *OPEN)
    code, output = flagperf.wait()
    assert flagperf.left() == []
    result, restarts = restarts_of(flagperf.folder)
    assert (code, result["status"], result["values"]["resumed_from_step"]) == (0, "finished", 2), output
    assert restarts == [{"hosts": [HOST], "rank": 0, "last_step": 2, "next_step": 2}]
    assert "\n  restart 1 of 1, on the same hosts, after step 2\n" in output
    row = rf"\n\| 1 \| 1 \| rank 0 on {HOST} \(node rank 0\): signal SIGKILL, during training \| {HOST} \| 2 \| 2 \|"
    assert re.search(row, (flagperf.folder / "report.md").read_text())


@pytest.mark.slow
def test_a_spare_host_replaces_one_that_fails_again(tmp_path: Path) -> None:
    flagperf = launch(tmp_path / "run", *KILLED, "restarts=2", *TWICE, *OPEN)
    _, output = flagperf.wait()
    assert flagperf.left() == []
    result, restarts = restarts_of(flagperf.folder)
    assert (result["status"], [each["hosts"] for each in restarts]) == ("finished", [["left", "right"]] * 2), output
    assert list(result["phases"]) == ["spare_noderank0", "right_noderank1"]
    assert "restart 2 of 2, on spare in place of left, after step 2\n" in output


@pytest.mark.slow
def test_no_restart_is_left(tmp_path: Path) -> None:
    flagperf = launch(tmp_path / "run", *KILLED, "restarts=1", *OPEN)
    code, output = flagperf.wait()
    result, restarts = restarts_of(flagperf.folder)
    assert (code, result["failure"]["signal"], len(restarts)) == (5, "SIGKILL", 1), output


@pytest.mark.torch
@pytest.mark.slow
def test_a_divided_training_goes_on_from_its_parts(tmp_path: Path) -> None:
    """Rank 1 is killed in step 4; the next attempt makes the steps after the checkpoint of step 3."""
    task = ("task._target_=faulty.pytorch.FaultyText", "+task.fault=kill", "+task.rank=1")
    words = ("size=tiny", "num_workers=0", "log_freq=1", "max_steps=5", "division=open", "restarts=1")
    flagperf = launch(tmp_path / "run", "model=llama3_8b", *words, "checkpoint_freq=3", *task)
    code, output = flagperf.wait()
    assert flagperf.left() == []
    result, restarts = restarts_of(flagperf.folder)
    assert (code, result["verdict"]) == (0, "VALID"), output
    assert restarts == [{"hosts": [HOST], "rank": 1, "last_step": 3, "next_step": 3}]
    steps = [event.value["step"] for event in flagperf.events(0) if event.event == "STEP_END"]
    assert (steps, result["values"]["global_steps"]) == ([4, 5], 5)
    assert result["cost"]["seconds"]["restarts"] > 0
