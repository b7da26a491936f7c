"""What a scheduler says and does. The entry points of the group `flagperf.schedulers` name one class each.

The name is that of the cluster's section, such as `slurm:`. A scheduler of another package has the section
`scheduler:`, with its name and whatever else it reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, HostError
from flagperf.hosts.source import Say, source
from flagperf.hosts.transport import Transport
from flagperf.schedulers.request import Launched, Request

if TYPE_CHECKING:  # a dry run needs none of these
    from flagperf.contract.records import Summary
    from flagperf.hosts.findings import Row
    from flagperf.run.collecting import LogLocation
    from flagperf.run.command_file import Command


class NeverBegan(HostError):
    """A run that was submitted is over or waits in vain, and has not begun."""


class Scheduler(ABC):
    """Gives hosts to the jobs that this launcher runs, or runs them without a launcher."""

    submits: ClassVar[bool] = False  # whether it takes submit=true: a run that begins later, without this launcher
    renders: ClassVar[bool] = False  # whether it takes render=FOLDER: files with which the user starts the run
    keeps_logs: ClassVar[bool] = False  # whether the logs of a run stay where they were once they are collected

    def request(self, jobs: Sequence[JobConfig], command: Callable[[], Command]) -> Request:
        """What a command asks of the scheduler: as here, that this launcher runs the jobs.

        Args:
            command: gives what was typed.

        Raises:
            ConfigError: the scheduler cannot do that.
        """
        self.check(jobs)
        return Launched(jobs, command)

    def check(self, jobs: Sequence[JobConfig]) -> None:
        """Refuse jobs that ask for what the scheduler does not do."""
        first = jobs[0]
        if first.submit and not self.submits:
            advice = "cluster=slurm submit=true"
            raise ConfigError("this cluster has no queue", key="submit", given=first.cluster.name, advice=advice)
        if first.render is not None and not self.renders:
            allowed = "null, or a cluster of pods: cluster=kubernetes, or a file of yours with kubernetes: in it"
            raise ConfigError("this cluster has no manifests", key="render", given=first.render, allowed=allowed)

    # ---------------------------------------------------------------- while this launcher runs jobs: hosts/source.py

    @asynccontextmanager
    async def allocate(self, job: JobConfig, say: Say) -> AsyncIterator[Cluster]:  # noqa: ARG002
        yield job.cluster

    @abstractmethod
    def transports(self, nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]: ...

    async def is_over(self, job: int) -> bool:  # noqa: ARG002
        return False

    # ---------------------------------------------------------------- before a run, and after it

    async def examine(self, job: JobConfig) -> list[Row] | None:  # noqa: ARG002
        """What `flagperf doctor` says of the scheduler; None: it looks at the hosts of the job.

        Raises:
            ConfigError: nobody can look at them from here.
        """
        return None

    async def clean(self, job: JobConfig) -> tuple[list[Row], JobConfig]:
        """Remove what dead runs left in the scheduler's queue, and the job on the hosts that can be cleaned from here.

        Raises:
            ConfigError: nobody can clean them from here.
        """
        return [], job

    async def standing(self, folder: Path) -> str:  # noqa: ARG002
        """How a run stands that was submitted and has not begun, as "is queued: …"; "" where that cannot be told.

        Raises:
            NeverBegan: it is over, or waits in vain.
            ConfigError: the folder does not say which job it is.
        """
        return ""

    @abstractmethod
    def contact(self, node: Node, cluster: Cluster) -> str:
        """How a node is reached for its logs, in words, for whoever has to trust a folder."""

    async def collect(self, locations: Sequence[LogLocation]) -> list[Row]:
        """Bring the logs that are left of a round; a row for each host that had some, or could not be asked."""
        from flagperf.run.collecting import collect_from_hosts

        return await collect_from_hosts(locations)

    def with_final_states(self, folder: Path, summaries: Sequence[Summary]) -> Sequence[Summary]:  # noqa: ARG002
        """The jobs of a run with what the scheduler knows now of how they ended; `folder`: of the run."""
        return summaries


def scheduler(name: str) -> Scheduler:
    """The scheduler of a name; `nodes`: hosts are listed. Raises ConfigError where no installed package has it."""
    return cast(Scheduler, source(name))
