"""Monitors on a host that has nothing but sshd and a shell."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path

from hosts import TestCluster
from test_ssh import connect, processes, until

from flagperf.config.compose import compose
from flagperf.contract.command import Command
from flagperf.hosts.monitors.running import running
from flagperf.plan.plan import make_plan

ACME = Path(__file__).parents[1] / "data/acme"
LOGS = "/srv/logs of a node"
STAMP = r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d[+-]\d{4}"


def test_logs_come_to_the_launcher_and_nothing_is_left_on_the_host(lab: TestCluster, tmp_path: Path) -> None:
    words = ["vendor=acme", "hardware=A1", "runtime=process", "size=tiny", "monitor.interval=0.3"]
    job = compose(words, [ACME])
    assert job.vendor.monitor is not None
    tool = dataclasses.replace(job.vendor.monitor, command=("/srv/acme-smi",))
    job = dataclasses.replace(job, vendor=dataclasses.replace(job.vendor, monitor=tool))
    node = dataclasses.replace(make_plan(job, 1).nodes[0], log_dir=LOGS)

    async def body() -> str:
        async with connect(lab) as host:
            await host.put(ACME / "bin/acme-smi", "/srv/acme-smi")
            await host.run(Command(("mkdir", "-p", LOGS)), timeout=5)
            async with running(job, node, host, tmp_path):
                await until((tmp_path / "acme_monitor.log").exists)
                await until((tmp_path / "cpu_monitor.log").exists)
                assert processes(lab, "@begin")
            return (await host.run(Command(("ls", "-A", LOGS)), timeout=5)).stdout

    assert asyncio.run(body()) == ""
    assert processes(lab, "@begin") == []
    device = r"\d+C [\d.]+W [\d.]+MiB 16384MiB \d+%\n"
    assert re.fullmatch(rf"({STAMP}\n{device}{device}\n)+", (tmp_path / "acme_monitor.log").read_text())
    assert re.fullmatch(rf"({STAMP}\t[01]\.\d{{4}}\n)+", (tmp_path / "cpu_monitor.log").read_text())
