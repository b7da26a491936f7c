"""`flagperf clean`: removes what dead runs left on the hosts of a cluster, and nothing else.

A run is dead when its launcher is.
"""

from __future__ import annotations

import argparse
import asyncio
from functools import partial

from flagperf.cli.cluster import Row, failed_row, look_at_cluster
from flagperf.config.values import RunConfig
from flagperf.docker.daemon import DaemonError, DockerHost, NoDocker
from flagperf.docker.once import remove
from flagperf.docker.runtime import containers
from flagperf.errors import FlagperfError
from flagperf.hosts import leftovers
from flagperf.hosts.connect import make_transports
from flagperf.hosts.transport import Transport


def main(options: argparse.Namespace) -> int:
    """Clean the hosts of a cluster, and print what was removed."""
    return look_at_cluster(options, clean)


async def clean(run: RunConfig) -> list[Row]:
    """Clean every host of the cluster. Each row says what was removed, or what could not be."""
    if run.cluster.slurm is not None:
        return await _clean_queue()
    transports = make_transports(run, run.cluster.nodes)
    rows = await asyncio.gather(*(_clean(run, transport) for transport in transports))
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


async def _clean(run: RunConfig, transport: Transport) -> list[Row]:
    removed: list[str] = []
    rows: list[Row] = []
    try:
        async with transport:
            if not transport.same_files:
                removed += await leftovers.remove_dead_folders(transport, run.cluster.work_dir)
                removed += await leftovers.remove_dead_process_folders(transport)
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
            for name, owner in (await docker.call(containers)).items():
                if leftovers.owner_state(owner) == "dead":
                    await docker.call(partial(remove, name=name))
                    removed.append(f"container {name}")
    except NoDocker:
        pass  # a host without docker has no containers
    return removed
