"""The hosts of a run's jobs. Ctrl-C ends the wait for them, and nothing of them stays behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType

from flagperf.config.schema.cluster import Cluster
from flagperf.config.schema.values import JobConfig
from flagperf.errors import InterruptedRunError
from flagperf.hosts.source import source
from flagperf.run.interrupt import interruption

RELEASING = "the nodes are being given back; a further interrupt ends this at once"

log = logging.getLogger(__name__)


class Hosts:
    """Gives hosts to one job after another. Jobs that need the same nodes of a scheduler share them.

    Used as `async with`, which gives back at its end what is still held.

    Args:
        say: is told, line by line, how the wait for nodes goes.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._held = AsyncExitStack()
        self._cluster: Cluster | None = None  # with the nodes that are held
        self._needs: tuple[object, ...] = ()  # of the job that they were got for

    async def __aenter__(self) -> Hosts:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    async def of(self, job: JobConfig) -> JobConfig:
        """The job on nodes that it may use.

        Raises:
            ConfigError, HostError: there are none for it.
            InterruptedRunError: the wait was interrupted.
        """
        needs = (job.cluster, job.nnodes, job.nproc, job.vendor.name, job.runtime)
        if self._cluster is None or self._needs != needs:
            await self.release()
            self._cluster, self._needs = await self._get(job), needs
        return _on(job, self._cluster)

    async def release(self) -> None:
        """Give back what is held: the nodes may be gone, or another job needs others."""
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
            if interrupted.is_set():  # also where the nodes came at the same moment
                raise InterruptedRunError(" while waiting for nodes")
            return cluster


def _on(job: JobConfig, cluster: Cluster) -> JobConfig:
    """The job on this cluster; with train_batch_size=auto also at the sizes that are tried."""
    sized = job.sized
    return replace(job, cluster=cluster, sized=sized and (lambda size: _on(sized(size), cluster)))
