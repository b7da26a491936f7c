"""What the monitors of a node cost: CPU time of all their processes, and of the launcher that reads them.

    python benchmarks/monitor_cost.py [SECONDS]

cpu, memory, power and an accelerator's tool, sampled as conf/config.yaml says. The tool only prints recorded output
for eight devices: what a vendor's own program costs comes on top. Limit: 1 % of one core per node.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import tempfile
import time
from pathlib import Path

from flagperf.compose import compose
from flagperf.guard import descendants
from flagperf.monitors.running import running
from flagperf.plan import make_plan
from flagperf.schema import NodePlan, RunConfig
from flagperf.transport import LocalTransport

LIMIT = 1.0  # percent of one core
TICKS = os.sysconf("SC_CLK_TCK")
OUTPUT = "\n".join(f"{30 + index}, 57.25, 15, 40536, 0" for index in range(8))


def tree_seconds() -> float:
    """CPU seconds of all descendants, with what they inherited from ended ones."""
    ticks = 0
    for pid in descendants():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return ticks / TICKS


async def cost(run: RunConfig, node: NodePlan, seconds: float) -> tuple[float, float]:
    """CPU seconds on the node and in the launcher."""
    async with LocalTransport("here") as transport:
        before = time.process_time()
        async with running(run, node, transport, Path(node.log_dir)):
            await asyncio.sleep(seconds)
            return tree_seconds(), time.process_time() - before


def main(seconds: float) -> None:
    run = compose(["vendor=nvidia", "hardware=A100", "runtime=docker", "data_dir=/"])
    assert run.vendor.monitor is not None
    tool = dataclasses.replace(run.vendor.monitor, command=("echo", OUTPUT))
    run = dataclasses.replace(run, vendor=dataclasses.replace(run.vendor, monitor=tool))
    with tempfile.TemporaryDirectory() as folder:
        node = dataclasses.replace(make_plan(run, 1).nodes[0], log_dir=folder)
        on_node, in_launcher = asyncio.run(cost(run, node, seconds))
        logs = sorted(path.name for path in Path(folder).glob("*.log"))
    print(f"{seconds:g} s, a sample every {run.config['monitor']['interval']:g} s: {', '.join(logs)}")
    for place, spent in (("node", on_node), ("launcher", in_launcher)):
        print(f"{place:9} {spent:6.3f} s CPU  {100 * spent / seconds:5.2f} % of a core   limit {LIMIT:g} %")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
