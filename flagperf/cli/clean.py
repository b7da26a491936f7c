"""flagperf clean: remove what runs that died left behind on a cluster

usage: flagperf clean [OVERRIDES…]

words:
  OVERRIDES…  cluster=NAME; what runs that go on have made stays

options: --config-dir

examples:
  flagperf clean cluster=lab

exit codes: 0, 2, 3
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from flagperf.cli.cluster import Row, failed_row, look_at_cluster
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.schedulers import Slurm
from flagperf.config.schema.values import JobConfig
from flagperf.docker.daemon import DaemonError, DockerHost, NoDocker
from flagperf.docker.leftovers import containers
from flagperf.docker.once import remove
from flagperf.errors import FlagperfError
from flagperf.hosts import leftovers
from flagperf.hosts.connect import make_transports
from flagperf.hosts.transport import Transport

NOT_REACHED = "nodes are reached in an allocation only: a run looks for what others left on its own as it begins"


def main(options: argparse.Namespace) -> int:
    """Clean the hosts of a cluster, and print what was removed."""
    return look_at_cluster(options, clean)


async def clean(job: JobConfig) -> list[Row]:
    """Clean every host of the cluster. Each row says what was removed, or what could not be."""
    if job.cluster.slurm is not None:
        return [*await _clean_queue(), *await _clean_allocation(job, job.cluster.slurm)]
    return await _clean_hosts(job, job.cluster.nodes)


async def _clean_hosts(job: JobConfig, nodes: Sequence[Node]) -> list[Row]:
    rows = await asyncio.gather(*(_clean(job, transport) for transport in make_transports(job, nodes)))
    return [row for found in rows for row in found]


async def _clean_queue() -> list[Row]:
    """Cancel the jobs of dead runs in Slurm's queue. What ran on their nodes ends with them."""
    from flagperf.hosts.slurm.commands import SLURM
    from flagperf.hosts.slurm.ours import cancel_dead

    try:
        jobs = await cancel_dead()
    except FlagperfError as error:
        return [failed_row(SLURM, "clean", error)]
    return [Row(SLURM, "clean", "ok", f"job {job}" if job else "nothing to remove") for job in jobs or [""]]


async def _clean_allocation(job: JobConfig, slurm: Slurm) -> list[Row]:
    """Clean the nodes of an allocation that the user has. No others can be reached."""
    from flagperf.hosts.slurm.allocation import own_job, own_nodes
    from flagperf.hosts.slurm.commands import SLURM

    try:
        nodes = await own_nodes(slurm)
    except FlagperfError as error:
        return [failed_row(SLURM, "clean", error)]
    if not nodes:
        advice = f"salloc --nodes=N flagperf clean cluster={job.cluster.name}"
        return [Row(SLURM, "clean", "skipped", NOT_REACHED, advice)]
    held = replace(job.cluster, slurm=replace(slurm, job=own_job(slurm)))
    return await _clean_hosts(replace(job, cluster=held), nodes)


async def _clean(job: JobConfig, transport: Transport) -> list[Row]:
    removed: list[str] = []
    rows: list[Row] = []
    try:
        async with transport:
            if not transport.same_files:
                removed += await leftovers.remove_dead_folders(transport, job.cluster.work_dir)
                removed += await leftovers.remove_dead_process_folders(transport)
                claimed = await leftovers.claimed_folders(transport, job.cluster.work_dir)
                if kept := [path for path, state in claimed.items() if state == "kept"]:
                    found = f"logs that were not collected stay: {', '.join(kept)}"
                    rows.append(Row(transport.host, "clean", "warning", found, leftovers.advice(kept)))
            try:
                removed += await _remove_containers(transport)
            except DaemonError as error:
                found = f"containers were not looked for: {error.problem}"
                rows.append(Row(transport.host, "clean", "warning", found, error.advice or ""))
    except FlagperfError as error:
        rows.append(failed_row(transport.host, "clean", error))
    if not (removed or rows):
        removed.append("nothing to remove")
    return [*(Row(transport.host, "clean", "ok", what) for what in removed), *rows]


async def _remove_containers(transport: Transport) -> list[str]:
    removed = []
    try:
        async with DockerHost(transport) as docker:
            for name, state in (await containers(docker.call)).items():
                if state == "dead":
                    await docker.call(partial(remove, name=name))
                    removed.append(f"container {name}")
    except NoDocker:
        pass  # a host without docker has no containers
    return removed
