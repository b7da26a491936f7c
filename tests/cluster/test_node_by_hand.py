"""`flagperf node`, given on each of two hosts: a training of both, and the report of its parts.

In two pods it is tried by tests/run/test_pods.py, also in `make test`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from hosts import Host, TestCluster

from flagperf.cli.main import run_command
from flagperf.report import read_run

JOB = "resnet50-pytorch-cpux2x1"
WORDS = ("model=resnet50", "nnodes=2", "nproc=1", "max_steps=3", "log_freq=1", "num_workers=0", "deadlines.start=600")


def start(host: Host, rank: int, master: str, home: Path) -> subprocess.Popen[str]:
    """The command on the host's network, with a result folder of its own."""
    flagperf = str(Path(sys.executable).with_name("flagperf"))
    own = (f"result_dir={home}/{host.name}", "run_name=run", f"sample_dir={home}/sample{rank}")
    return subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{host.netns}", flagperf, "node", *WORDS, *own, f"node_rank={rank}", master],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "500"},
    )


@pytest.mark.slow
def test_two_nodes(lab: TestCluster, tmp_path: Path) -> None:
    hosts = lab.hosts[:2]
    master = f"master={hosts[0].address}:29511"
    with ExitStack() as ends:  # closes their pipes, and waits for them
        nodes = [ends.enter_context(start(host, rank, master, tmp_path)) for rank, host in enumerate(hosts)]
        try:
            said = [node.communicate(timeout=280)[0] for node in nodes]
        finally:
            for node in nodes:
                node.kill()
    assert [node.returncode for node in nodes] == [0, 0], said
    joined = tmp_path / "joined"
    for host in hosts:
        shutil.copytree(tmp_path / host.name / "run", joined, dirs_exist_ok=True)
    (job,) = read_run(joined)
    (found,) = job.results
    assert (job.name, found.status, found.verdict, found.reasons) == (JOB, "finished", "VALID", ())
    assert [rank["rank"] for rank in found.values["ranks"]] == [0, 1]
    assert set(found.phases) == {"node0_noderank0", "node1_noderank1"}
    for rank, host in enumerate(hosts):
        plan = json.loads((tmp_path / host.name / "run" / JOB / "round1/plan.json").read_text())
        assert (plan["master_address"], plan["master_port"]) == (hosts[0].address, 29511)
        assert plan["nodes"][rank]["launch"]["env"]["GLOO_SOCKET_IFNAME"] == "eth0"
    assert run_command(["report", str(joined)]) == 0
    assert "\n**1 job: 1 VALID" in (joined / "report.md").read_text()
