"""Runs the real command against a cluster of Slurm, as a person on its login node."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flagperf_run import FAKE, Person
from slurm_lab import SlurmLab

NAME = "resnet50-pytorch-cpux2x1"
TRAINING = ("model=resnet50", "size=tiny", "nnodes=2", "num_workers=0")
STEPPING = (*FAKE, "nnodes=2", "+experiment=steps", "max_steps=900")  # ranks that log steps and train nothing


class SlurmUser(Person):
    """A person on the login node of the cluster."""

    verbs = ("-m", "doctor")

    def __init__(self, lab: SlurmLab, home: Path, **slurm: Any) -> None:
        described = {"title": "nodes that Slurm gives", "slurm": {"partition": "main", **slurm}}
        super().__init__(home, "site", described, **lab.env)
        self.lab = lab


def until(found: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)
    return answer


def stepping(user: SlurmUser, run_name: str = "run") -> bool:
    """Whether rank 0 of a run has made a step."""
    logs = (user.home / "result" / run_name).glob("*/round1/*_noderank0/rank0.out.log")
    return any("STEP_END" in log.read_text() for log in logs)


def job_of(lab: SlurmLab) -> str:
    return lab.queue()[0].split()[0]
