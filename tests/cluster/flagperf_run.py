"""Runs the real command against the test cluster, in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hosts import IMAGE, OURS, TestCluster, image_mounts

OPEN = "division=open"  # this machine's Python is mounted into the image, and `steps` takes the place of torchrun
DOCKER = ("runtime=docker", f"vendor.image.pytorch.name={IMAGE}", f"runtime.python={sys.executable}", OPEN)
SMALL = ("max_steps=6", "log_freq=1", "num_workers=0")
STEPS = {
    "title": "tests/cluster/workload/steps.py in place of torchrun and a training",
    "module": "sys",
    "launch": [
        "{python}",
        "-c",
        "import steps; steps.start()",
        "{config}",
        "{node_rank}",
        "{nproc}",
        "${oc.env:SCENARIO,fine}",
    ],
}
WORKLOAD = Path(__file__).parent / "workload"
FAKE = (f"code_dir={WORKLOAD}", "model=resnet50", "size=tiny", OPEN)


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    exit_code: int
    output: str
    folder: Path  # the run folder

    @property
    def log(self) -> str:
        return (self.folder / "flagperf_run.log").read_text()

    def result(self, name: str, number: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name / f"round{number}" / "result.json").read_text())
        return found


class Person:
    """Someone with a configuration folder of their own, in which their cluster is described.

    Attributes:
        words: are added to each command with overrides.
        verbs: first words of commands that take overrides, beside an override itself.
    """

    words: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    def __init__(self, home: Path, cluster: str, described: Mapping[str, Any], **variables: str) -> None:
        self.home, self.cluster, self.variables = home, cluster, variables
        self.config_dir = home / "bench"
        self.write(f"cluster/{cluster}", described)
        self.write("experiment/steps", {"framework": STEPS}, "# @package _global_\n")

    def write(self, name: str, content: Mapping[str, Any], first_line: str = "") -> None:
        path = self.config_dir / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(first_line + yaml.safe_dump(dict(content), sort_keys=False))

    def read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.config_dir / f"{name}.yaml").read_text())
        return found

    def start(self, *words: str, run_name: str = "run", scenario: str = "fine", **env: str) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).with_name("flagperf")), "--config-dir", str(self.config_dir), *words]
        if "=" in words[0] or words[0] in self.verbs:
            result = [f"result_dir={word(self.home / 'result')}", f"run_name={word(run_name)}"]
            command += [f"cluster={self.cluster}", *result, *self.words]
        own = {"OMP_NUM_THREADS": "1", "COLUMNS": "500", "SCENARIO": scenario}
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **self.variables, **own, **env},
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str], run_name: str = "run", timeout: float = 270) -> Done:
        with process:  # closes its pipe, and waits for it
            try:
                output, _ = process.communicate(timeout=timeout)
            finally:
                process.kill()  # where it is late, and the next test must not meet it
        return Done(process.returncode, output, self.home / "result" / run_name)

    def run(self, *words: str, run_name: str = "run", scenario: str = "fine", timeout: float = 270, **env: str) -> Done:
        return self.end(self.start(*words, run_name=run_name, scenario=scenario, **env), run_name, timeout)


class User(Person):
    """A person whose `cluster=lab` are the hosts of the test cluster."""

    def __init__(self, lab: TestCluster, home: Path, *, steps: bool = False, **cluster: Any) -> None:
        super().__init__(home, "lab", cluster_file(lab) | cluster)
        self.lab = lab
        self.words = ("+experiment=steps",) if steps else ()


def cluster_file(lab: TestCluster) -> dict[str, Any]:
    return {
        "title": "hosts made of namespaces",
        "nodes": [{"name": host.name, "address": host.address, "user": "root"} for host in lab.hosts],
        "ssh": {"key": str(lab.key), "known_hosts": str(lab.known_hosts), "config": "/dev/null", "reconnect": 4.0},
        "work_dir": "/srv/flagperf",
        "container": {
            "mounts": {folder: folder for folder in image_mounts()},
            "shm_size": "256m",
            "ulimits": {"memlock": None},  # raising it needs a capability that a virtual machine may lack
        },
    }


def word(text: str | Path) -> str:
    """Any text as a value of the command line: to Hydra a backslash is one, but before a quote."""
    escaped = re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + ('\\"' if found[2] else ""), str(text))
    return f'"{escaped}"'


def assert_no_files(lab: TestCluster, *, but: tuple[str, ...] = ()) -> None:
    """No process or folder of a run on any host."""
    for host in lab.hosts:
        assert host.run("pgrep", "-af", OURS).stdout == "", host.name
        files = set(host.run("sh", "-c", "ls -A /srv/flagperf; ls -d /tmp/flagperf*").stdout.split())
        assert files <= {"sample", *but}, host.name


def assert_nothing_left(lab: TestCluster, *, but_files: tuple[str, ...] = ()) -> None:
    """No process, folder or container of a run on any host."""
    assert_no_files(lab, but=but_files)
    for host in lab.hosts:
        assert host.output("docker", "ps", "-a", "--format", "{{.Names}}") == "", host.name
