"""The interface of schedulers for a run: hosts for a job, found by the scheduler's name.

flagperf/schedulers has the whole interface and the schedulers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.schedulers import LISTED
from flagperf.config.schema.values import JobConfig
from flagperf.entry_points import named
from flagperf.errors import ConfigError, nearest
from flagperf.hosts.transport import Transport

GROUP = "flagperf.schedulers"
OF_LISTED = "flagperf.schedulers.listed:Listed"  # the most common scheduler, found without a search

Say = Callable[[str], None]  # takes messages about the wait for hosts


class Source(Protocol):
    """A provider of hosts."""

    def allocate(self, job: JobConfig, say: Say) -> AbstractAsyncContextManager[Cluster]:
        """Provide a cluster with nodes for a job while the block runs. Releases the nodes at the end of the block.

        Raises:
            ConfigError: the scheduler cannot be used in this way.
            HostError: the scheduler gives no such nodes.
        """
        ...

    def transports(self, nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]:
        """A transport for each of these nodes of other machines. `timeout`: seconds for a connection."""
        ...

    async def is_over(self, job: int) -> bool:
        """Whether a job of the scheduler has ended, or is no longer known to the scheduler."""
        ...


@cache
def source(name: str) -> Source:
    """The scheduler with this name, such as `slurm`. `nodes`: the cluster's file lists the hosts.

    Raises:
        ConfigError: no installed package provides the scheduler.
    """
    schedulers = {LISTED: OF_LISTED} if name == LISTED else named(GROUP)
    if name not in schedulers:
        allowed = nearest(name, schedulers)
        raise ConfigError("no such scheduler", key="cluster.scheduler.name", given=name, allowed=allowed)
    module, _, attribute = schedulers[name].partition(":")
    return cast(Source, getattr(import_module(module), attribute)())
