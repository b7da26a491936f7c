"""flagperf clean: remove leftovers of dead runs from the hosts of a cluster

usage: flagperf clean [OVERRIDES…]

words:
  OVERRIDES…  cluster=NAME; files and containers of active runs stay

options: --config-dir

examples:
  flagperf clean cluster=lab

exit codes: 0, 2, 3
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
from functools import partial

from flagperf.cli.cluster import look_at_cluster
from flagperf.config.schema.values import JobConfig
from flagperf.docker.daemon import DaemonError, DockerHost, NoDocker
from flagperf.docker.leftovers import container_states
from flagperf.docker.one_command import remove
from flagperf.errors import FlagperfError
from flagperf.hosts import leftovers
from flagperf.hosts.connect import make_transports
from flagperf.hosts.findings import Row, failed_row
from flagperf.hosts.transport import Transport
from flagperf.schedulers.interface import scheduler


def main(options: argparse.Namespace) -> int:
    """Clean the hosts of a cluster, and print the removed items."""
    return look_at_cluster(options, clean)


async def clean(job: JobConfig) -> list[Row]:
    """Clean every host that can be reached. A row for each item that was removed, or that could not be removed."""
    rows, job = await scheduler(job.cluster.source).clean(job)
    host_rows = await asyncio.gather(*(_clean(job, transport) for transport in make_transports(job, job.cluster.nodes)))
    return [*rows, *(row for of_host in host_rows for row in of_host)]


async def _clean(job: JobConfig, transport: Transport) -> list[Row]:
    removed: list[str] = []
    rows: list[Row] = []
    try:
        async with transport:
            if not transport.same_files:
                dead = await leftovers.remove_dead_folders(transport, job.cluster.work_dir)
                removed += [path for path, gone in dead.items() if gone]
                rows += [_staying(transport.host, path) for path, gone in dead.items() if not gone]
                removed += await leftovers.remove_dead_process_folders(transport)
                claimed = await leftovers.claimed_folders(transport, job.cluster.work_dir)
                if kept := [path for path, state in claimed.items() if state == "kept"]:
                    text = f"logs that were not collected stay: {', '.join(kept)}"
                    rows.append(Row(transport.host, "clean", "warning", text, leftovers.advice(kept)))
            try:
                removed += await _remove_containers(transport)
            except DaemonError as error:
                text = f"flagperf did not search for containers: {error.problem}"
                rows.append(Row(transport.host, "clean", "warning", text, error.advice or ""))
    except FlagperfError as error:
        rows.append(failed_row(transport.host, "clean", error))
    if not (removed or rows):
        removed.append("nothing to remove")
    return [*(Row(transport.host, "clean", "ok", item) for item in removed), *rows]


def _staying(host: str, path: str) -> Row:
    text = f"{path} stays: it has files of another user, such as root of a container whose launcher was killed"
    return Row(host, "clean", "warning", text, f"as root there: {shlex.join(('rm', '-rf', path))}")


async def _remove_containers(transport: Transport) -> list[str]:
    removed = []
    try:
        async with DockerHost(transport) as docker:
            for name, state in (await container_states(docker.call)).items():
                if state == "dead":
                    await docker.call(partial(remove, name=name))
                    removed.append(f"container {name}")
    except NoDocker:
        pass  # a host without docker has no containers
    return removed
