"""Kubernetes as a scheduler: flagperf writes manifests. kubectl applies them, and gives the output of pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from typing_extensions import override

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError
from flagperf.hosts.source import Say
from flagperf.hosts.transport import Transport
from flagperf.schedulers.interface import Scheduler
from flagperf.schedulers.request import Request

if TYPE_CHECKING:
    from flagperf.hosts.findings import Row
    from flagperf.run.collecting import LogLocation
    from flagperf.run.command_file import Command


class Kubernetes(Scheduler):
    """Kubernetes, with the settings of `flagperf.config.schema.kubernetes.Kubernetes`. The launcher reaches no pod."""

    renders = True
    keeps_logs = True

    @override
    def request(self, jobs: Sequence[JobConfig], command: Callable[[], Command]) -> Request:
        from flagperf.schedulers.kubernetes.rendered import Rendered

        self.check(jobs)
        return Rendered(jobs, command)

    @override
    @asynccontextmanager
    async def allocate(self, job: JobConfig, say: Say) -> AsyncIterator[Cluster]:
        problem = "flagperf itself requests no nodes of Kubernetes"
        advice = "dry_run=true prints the manifests, and render=FOLDER writes them"
        raise ConfigError(problem, key="cluster", given=job.cluster.name, advice=advice)
        yield job.cluster

    @override
    def transports(self, nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]:
        raise _not_reached(cluster)

    @override
    async def examine(self, job: JobConfig) -> list[Row] | None:
        raise _not_reached(job.cluster)

    @override
    async def clean(self, job: JobConfig) -> tuple[list[Row], JobConfig]:
        raise _not_reached(job.cluster)

    @override
    def contact(self, node: Node, cluster: Cluster) -> str:
        namespace = cluster.kubernetes.namespace if cluster.kubernetes else None
        return f"asks kubectl for pods and what they printed, namespace {namespace or 'of your context'}"

    @override
    async def collect(self, locations: Sequence[LogLocation]) -> list[Row]:
        from flagperf.schedulers.kubernetes.logs import collect

        return await collect(locations)


def _not_reached(cluster: Cluster) -> ConfigError:
    advice = "kubectl describe nodes shows the resources of the hosts; dry_run=true shows the needs of a run"
    return ConfigError("flagperf reaches no host of Kubernetes", key="cluster", given=cluster.name, advice=advice)
