"""The interface of schedulers. Each entry point of the group `flagperf.schedulers` names one class.

The name of an entry point is the cluster's section, such as `slurm:`. A scheduler of another package has the section
`scheduler:`, with its name and its settings.
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
    """A submitted run is over, or waits for ever, and has not begun."""


class Scheduler(ABC):
    """Provides hosts for jobs of this launcher, or runs jobs without this launcher."""

    submits: ClassVar[bool] = False  # whether submit=true works: a run begins later, without this launcher
    renders: ClassVar[bool] = False  # whether render=FOLDER works: it writes files with which the user starts the run
    keeps_logs: ClassVar[bool] = False  # whether collected logs also stay at their source

    def request(self, jobs: Sequence[JobConfig], command: Callable[[], Command]) -> Request:
        """The request of a command; by default this launcher runs the jobs.

        Args:
            command: gives the typed command.

        Raises:
            ConfigError: the scheduler cannot do that.
        """
        self.check(jobs)
        return Launched(jobs, command)

    def check(self, jobs: Sequence[JobConfig]) -> None:
        """Refuse submit=true and render=FOLDER where the scheduler does not support them."""
        job = jobs[0]
        if job.submit and not self.submits:
            advice = "cluster=slurm submit=true"
            raise ConfigError("this cluster has no queue", key="submit", given=job.cluster.name, advice=advice)
        if job.render is not None and not self.renders:
            allowed = "null, or a cluster of pods: cluster=kubernetes, or a file of yours with kubernetes: in it"
            raise ConfigError("this cluster has no manifests", key="render", given=job.render, allowed=allowed)

    # ---------------------------------------------------------------- while this launcher runs jobs: hosts/source.py

    @asynccontextmanager
    async def allocate(self, job: JobConfig, say: Say) -> AsyncIterator[Cluster]:  # noqa: ARG002
        """`flagperf.hosts.source.Source.allocate`; by default the nodes of the cluster's file."""
        yield job.cluster

    @abstractmethod
    def transports(self, nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]:
        """A transport for each of these nodes. `timeout`: seconds for a connection."""

    async def is_over(self, job: int) -> bool:  # noqa: ARG002
        """Whether a job of the scheduler has ended, or is no longer known to the scheduler."""
        return False

    # ---------------------------------------------------------------- before a run, and after it

    async def examine(self, job: JobConfig) -> list[Row] | None:  # noqa: ARG002
        """Rows of `flagperf doctor` about the scheduler; None: doctor checks the hosts of the job.

        Raises:
            ConfigError: this machine can check neither.
        """
        return None

    async def clean(self, job: JobConfig) -> tuple[list[Row], JobConfig]:
        """Cancel jobs of dead runs. Returns rows, and the job with the hosts that this machine can clean.

        Raises:
            ConfigError: this machine can clean no hosts.
        """
        return [], job

    async def queue_state(self, folder: Path) -> str:  # noqa: ARG002
        """The state of a submitted run that has not begun, as "is queued: …"; "": unknown.

        Raises:
            NeverBegan: the run is over, or can never begin.
            ConfigError: the folder does not name the job.
        """
        return ""

    @abstractmethod
    def contact(self, node: Node, cluster: Cluster) -> str:
        """The way to a node for its logs, as text, for a user who decides whether to trust a folder."""

    async def collect(self, locations: Sequence[LogLocation]) -> list[Row]:
        """Bring the remaining logs of a round. One row for each host with such logs, or with an error."""
        from flagperf.run.collecting import collect_from_hosts

        return await collect_from_hosts(locations)

    def with_final_states(self, folder: Path, summaries: Sequence[Summary]) -> Sequence[Summary]:  # noqa: ARG002
        """The jobs of a run with the scheduler's final states. `folder`: of the run."""
        return summaries


def scheduler(name: str) -> Scheduler:
    """The scheduler with this name; `nodes`: listed hosts. Raises ConfigError where no installed package has it."""
    return cast(Scheduler, source(name))
