"""What the monitors of a node cost: CPU time of all their processes, and of the launcher that reads them.

    python benchmarks/monitor_cost.py [SECONDS]            on this machine
    python benchmarks/monitor_cost.py SECONDS ssh          on a test host; its sshd is counted too

cpu, memory, power and an accelerator's tool, sampled as conf/config.yaml says. The tool only prints recorded output
for eight devices: what a vendor's own program costs comes on top. Limit: 1 % of one core per node, 1.25 % with its
sshd. A test host needs what the tests of clusters need: root, and Debian's docker.io, openssh-server and iproute2.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flagperf.config.compose import compose
from flagperf.config.schema.cluster import Node, Ssh
from flagperf.config.schema.values import JobConfig
from flagperf.hosts.guard import descendants
from flagperf.hosts.local import LocalTransport
from flagperf.hosts.monitors.running import running
from flagperf.hosts.ssh.transport import SshTransport
from flagperf.hosts.transport import Transport
from flagperf.plan.plan import make_plan
from flagperf.plan.values import NodePlan

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
from flagperf_run import cluster_file
from hosts import TestCluster
from limits import say

LIMITS = {"here": 1.0, "ssh": 1.25}  # percent of one core of the node, by the way to it
LIMIT_LAUNCHER = 1.0
TICKS = os.sysconf("SC_CLK_TCK")
OUTPUT = "\n".join(f"{index}, 30, 57.25, 15, 40536, 0, 1410" for index in range(8))


def cpu_seconds(stat_lines: list[str]) -> float:
    """CPU seconds of processes, with what they inherited from ended ones."""
    fields = [line.rpartition(")")[2].split() for line in stat_lines]
    return sum(int(ticks) for words in fields for ticks in words[11:15]) / TICKS  # utime, stime, cutime, cstime


def of_descendants() -> float:
    return cpu_seconds([Path(f"/proc/{pid}/stat").read_text() for pid in descendants()])


@contextmanager
def node(where: str) -> Iterator[tuple[Transport, Callable[[], float], str]]:
    """The way to a node, the CPU seconds spent there so far, and a folder on it."""
    if where != "ssh":
        with tempfile.TemporaryDirectory() as folder:
            yield LocalTransport("here"), of_descendants, folder
        return
    with TestCluster(size=1) as cluster:
        (host,) = cluster.hosts
        file = cluster_file(cluster)

        def on_host() -> float:
            lines = host.output("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null; true").splitlines()
            return cpu_seconds([line for line in lines if not re.search(r"\((dockerd|containerd.*)\)", line)])

        host.output("mkdir", "-p", "/srv/logs")
        yield SshTransport(Node(**file["nodes"][0]), Ssh(**file["ssh"]), timeout=10.0), on_host, "/srv/logs"


async def cost(
    job: JobConfig, plan: NodePlan, transport: Transport, spent: Callable[[], float], seconds: float, logs: Path
) -> tuple[float, float]:
    """CPU seconds on the node and in the launcher."""
    async with transport:
        on_node, in_launcher = spent(), time.process_time()
        async with running(job, plan, transport, logs):
            await asyncio.sleep(seconds)
            return spent() - on_node, time.process_time() - in_launcher


def main(seconds: float, where: str) -> None:
    job = compose(["vendor=nvidia", "hardware=A100", "runtime=docker", "data_dir=/"])
    assert job.vendor.monitor is not None
    tool = dataclasses.replace(job.vendor.monitor, command=("echo", OUTPUT))
    job = dataclasses.replace(job, vendor=dataclasses.replace(job.vendor, monitor=tool))
    with node(where) as (transport, spent, folder), tempfile.TemporaryDirectory() as logs:
        plan = dataclasses.replace(make_plan(job, 1).nodes[0], log_dir=folder)
        on_node, in_launcher = asyncio.run(cost(job, plan, transport, spent, seconds, Path(logs)))
        written = sorted(path.name for path in Path(logs).glob("*.log"))
    print(f"{seconds:g} s, a sample every {job.config['monitor']['interval']:g} s: {', '.join(written)}")
    for host, used, limit in (("node", on_node, LIMITS[where]), ("launcher", in_launcher, LIMIT_LAUNCHER)):
        say(f"monitors of a node ({where}), {host}", 100 * used / seconds, limit, "% of a core")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, sys.argv[2] if len(sys.argv) > 2 else "here")
