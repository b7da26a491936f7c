"""What the monitors of many nodes cost the launcher: CPU time of its process, once all of them run.

    python benchmarks/many_monitors.py [NODES] [SECONDS]

The nodes are one sshd on this loopback, with one connection each, as in fanout.py. Each runs the monitors of a node
with eight devices, whose tool only prints recorded output. Baseline: the same connections, open and without monitors.
Limit: 10 % of one core for 64 nodes. Needs Debian's openssh-server.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from fanout import Sshd, run_on, sshd
from limits import say
from monitor_cost import OUTPUT

from flagperf.config.compose import compose
from flagperf.config.schema.values import JobConfig
from flagperf.hosts.connect import make_transports
from flagperf.hosts.monitors.running import running
from flagperf.plan.plan import make_plan

LIMIT = 10.0  # percent of one core
SETTLE = 5.0  # seconds in which connections and monitors begin


def watched(server: Sshd, nodes: int, folder: str) -> JobConfig:
    """A run on so many nodes whose devices a tool watches."""
    job = compose(["vendor=nvidia", "hardware=A100", "runtime=docker", "data_dir=/"])
    assert job.vendor.monitor is not None
    tool = replace(job.vendor.monitor, command=("echo", OUTPUT))
    cluster = run_on(server, nodes, folder).cluster
    return replace(job, nnodes=nodes, cluster=cluster, vendor=replace(job.vendor, monitor=tool))


async def used(seconds: float) -> float:
    """CPU seconds of this process in such a time, once it has settled."""
    await asyncio.sleep(SETTLE)
    before = time.process_time()
    await asyncio.sleep(seconds)
    return time.process_time() - before


async def cost(job: JobConfig, seconds: float, logs: Path) -> tuple[float, float, int]:
    """CPU seconds of the launcher with open connections, then with monitors; and how many logs these have written."""
    plans, transports = make_plan(job, 1).nodes, make_transports(job, job.cluster.nodes)
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(transport) for transport in transports))
        idle = await used(seconds)
        for plan, transport in zip(plans, transports, strict=True):
            there = replace(plan, log_dir=str(logs / "there" / plan.node.name))
            here = logs / "here" / plan.node.name
            for folder in (Path(there.log_dir), here):
                folder.mkdir(parents=True)
            await stack.enter_async_context(running(job, there, transport, here))
        return idle, await used(seconds), len(list((logs / "here").glob("*/*.log")))


def main(nodes: int, seconds: float) -> None:
    with sshd() as server, tempfile.TemporaryDirectory() as folder:
        run = watched(server, nodes, folder)
        idle, busy, logs = asyncio.run(cost(run, seconds, Path(folder)))
    print(f"{nodes} nodes, {seconds:g} s, a sample every {run.monitor.interval:g} s: {logs} logs")
    print(f"launcher, connections alone {idle:6.2f} s CPU  {100 * idle / seconds:5.2f} % of a core")
    say(f"monitors of {nodes} nodes over ssh, launcher", 100 * busy / seconds, LIMIT, "% of a core")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 64, float(sys.argv[2]) if len(sys.argv) > 2 else 60.0)
