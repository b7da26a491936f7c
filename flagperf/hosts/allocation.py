"""Where the nodes of a job come from: the cluster's file lists them, or a scheduler gives them for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError

Say = Callable[[str], None]  # is told, line by line, how the wait for nodes goes


@asynccontextmanager
async def allocate(job: JobConfig, say: Say) -> AsyncIterator[Cluster]:
    """The cluster with nodes that a job may use while the block runs; given back when it ends, whatever happened.

    Raises:
        ConfigError: the scheduler cannot be used in this way.
        HostError: it gives no such nodes.
    """
    if job.cluster.slurm is not None:
        from flagperf.hosts.slurm.allocation import slurm_nodes

        async with slurm_nodes(job, job.cluster.slurm, say) as (nodes, slurm):
            yield replace(job.cluster, nodes=nodes, slurm=slurm)
    elif job.cluster.scheduler is not None:
        problem = f"flagperf gets no nodes of {job.cluster.scheduler} by itself"
        advice = "dry_run=true prints what would run there, and render=FOLDER writes it"
        raise ConfigError(problem, key="cluster", given=job.cluster.name, advice=advice)
    else:
        yield job.cluster


def on(job: JobConfig, cluster: Cluster) -> JobConfig:
    """The job on this cluster; with train_batch_size=auto also at the sizes that are tried."""
    sized = job.sized
    return replace(job, cluster=cluster, sized=sized and (lambda size: on(sized(size), cluster)))
