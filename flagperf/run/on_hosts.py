"""Hosts for the jobs of a run. Ctrl-C ends the wait for hosts, and releases them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.values import JobConfig
from flagperf.errors import InterruptedRunError
from flagperf.hosts.source import source
from flagperf.run.interrupt import interruption

RELEASING = "the nodes are being given back; a further interrupt ends this at once"

log = logging.getLogger(__name__)


class Hosts:
    """Gives hosts to one job after another. Jobs that need the same nodes of a scheduler share them.

    The end of an `async with` block releases the hosts.

    Args:
        say: takes messages about the wait for nodes.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._held = AsyncExitStack()
        self._cluster: Cluster | None = None  # with the current nodes; None: no nodes
        self._needs: tuple[object, ...] = ()  # of the job that got the nodes

    async def __aenter__(self) -> Hosts:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def of(self, job: JobConfig) -> JobConfig:
        """The job with nodes.

        Raises:
            ConfigError, HostError: no such nodes exist.
            InterruptedRunError: the wait was interrupted.
        """
        needs = (job.cluster, job.nnodes, job.nproc, job.vendor.name, job.runtime)
        if self._cluster is None or self._needs != needs:
            await self.release()
            self._cluster, self._needs = await self._get(job), needs
        return _on(job, self._cluster)

    async def release(self) -> None:
        """Release the nodes: they may be lost, or the next job needs others."""
        self._cluster = None
        with interruption(lambda: log.warning(RELEASING)):
            await self._held.aclose()

    async def _get(self, job: JobConfig) -> Cluster:
        hosts = source(job.cluster.source).allocate(job, self._say)
        waiting = asyncio.ensure_future(self._held.enter_async_context(hosts))
        with interruption(waiting.cancel, lambda: log.warning(RELEASING)) as interrupted:
            try:
                cluster = await waiting
            except asyncio.CancelledError:
                if not interrupted.is_set():
                    raise
            if interrupted.is_set():  # possibly at the moment when the nodes came
                raise InterruptedRunError(" while waiting for nodes")
            return cluster


def _on(job: JobConfig, cluster: Cluster) -> JobConfig:
    """The job on this cluster; with train_batch_size=auto also at other sizes."""
    sized = job.sized
    return replace(job, cluster=cluster, sized=sized and (lambda size: _on(sized(size), cluster)))
