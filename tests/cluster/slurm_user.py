"""Runs the real command against a cluster of Slurm, as a person on its login node."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from flagperf_run import FAKE, STEPS, Done, word
from slurm_lab import SlurmLab

NAME = "resnet50-pytorch-cpux2x1"
TRAINING = ("model=resnet50", "size=tiny", "nnodes=2", "num_workers=0")
STEPPING = (*FAKE, "nnodes=2", "+experiment=steps", "max_steps=900")  # ranks that log steps and train nothing


class SlurmUser:
    """A person on the login node of the cluster."""

    def __init__(self, lab: SlurmLab, home: Path, **slurm: Any) -> None:
        self.lab, self.home = lab, home
        self.write("cluster/site", {"title": "nodes that Slurm gives", "slurm": {"partition": "main", **slurm}})
        self.write("experiment/steps", {"framework": STEPS}, "# @package _global_\n")

    def write(self, name: str, content: Mapping[str, Any], first_line: str = "") -> None:
        path = self.home / "bench" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(first_line + yaml.safe_dump(dict(content), sort_keys=False))

    def start(self, *words: str, run_name: str = "run", scenario: str = "fine", **env: str) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).with_name("flagperf")), "--config-dir", str(self.home / "bench"), *words]
        if "=" in words[0] or words[0] in ("-m", "doctor"):
            command += ["cluster=site", f"result_dir={word(self.home / 'result')}", f"run_name={word(run_name)}"]
        own = {"OMP_NUM_THREADS": "1", "COLUMNS": "500", "SCENARIO": scenario}
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **self.lab.env, **own, **env},
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str], run_name: str = "run", timeout: float = 120) -> Done:
        with process:
            try:
                output, _ = process.communicate(timeout=timeout)
            finally:
                process.kill()
        return Done(process.returncode, output, self.home / "result" / run_name)

    def run(self, *words: str, run_name: str = "run", scenario: str = "fine", **env: str) -> Done:
        return self.end(self.start(*words, run_name=run_name, scenario=scenario, **env), run_name)


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
