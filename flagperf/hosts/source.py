"""Where the hosts of a job come from: what a run asks of a scheduler, which is found by its name.

The whole interface, and the schedulers themselves: flagperf/schedulers.
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
OF_LISTED = "flagperf.schedulers.listed:Listed"  # by far the most common: found without a search

Say = Callable[[str], None]  # is told, line by line, how the wait for hosts goes


class Source(Protocol):
    """What gives hosts."""

    def allocate(self, job: JobConfig, say: Say) -> AbstractAsyncContextManager[Cluster]:
        """The cluster with nodes that a job may use while the block runs; given back when it ends, whatever happened.

        Raises:
            ConfigError: the scheduler cannot be used in this way.
            HostError: it gives no such nodes.
        """
        ...

    def transports(self, nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]:
        """A transport for each of these nodes, which are not this machine; `timeout`: seconds for a connection."""
        ...

    async def is_over(self, job: int) -> bool:
        """Whether a job of the scheduler is known to have ended, or not known to it any more."""
        ...


@cache
def source(name: str) -> Source:
    """The scheduler of a name, such as `slurm`; `nodes`: the hosts are listed.

    Raises:
        ConfigError: no installed package has it.
    """
    known = {LISTED: OF_LISTED} if name == LISTED else named(GROUP)
    if name not in known:
        raise ConfigError("no such scheduler", key="cluster.scheduler.name", given=name, allowed=nearest(name, known))
    module, _, attribute = known[name].partition(":")
    return cast(Source, getattr(import_module(module), attribute)())
