"""Slurm as a scheduler: nodes of an allocation, reached by srun, or a script that runs a job without this launcher."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.schedulers import Slurm as Settings
from flagperf.config.schema.values import JobConfig
from flagperf.errors import FlagperfError, HostError
from flagperf.hosts.source import Say
from flagperf.hosts.transport import Transport
from flagperf.schedulers.interface import Scheduler
from flagperf.schedulers.request import Request

if TYPE_CHECKING:
    from flagperf.contract.records import Summary
    from flagperf.hosts.findings import Row
    from flagperf.run.command_file import Command

NOT_REACHED = "nodes are reached in an allocation only: a run looks for what others left on its own as it begins"


class Slurm(Scheduler):
    """Slurm, with the settings of `flagperf.config.schema.schedulers.Slurm`."""

    submits = True

    @override
    def request(self, jobs: Sequence[JobConfig], command: Callable[[], Command]) -> Request:
        if not jobs[0].submit:
            return super().request(jobs, command)
        from flagperf.schedulers.slurm.submit import SubmitRequest

        return SubmitRequest.of(jobs, command())

    @override
    @asynccontextmanager
    async def allocate(self, job: JobConfig, say: Say) -> AsyncIterator[Cluster]:
        from flagperf.schedulers.slurm.allocation import slurm_nodes

        async with slurm_nodes(job, _settings(job.cluster), say) as (nodes, slurm):
            yield replace(job.cluster, nodes=nodes, slurm=slurm)

    @override
    def transports(self, nodes: Sequence[Node], cluster: Cluster, timeout: float) -> Sequence[Transport]:
        from flagperf.hosts.sockets import remove_dead_socket_folders
        from flagperf.schedulers.slurm.job import SlurmJob
        from flagperf.schedulers.slurm.transport import SrunTransport

        slurm = _settings(cluster)
        remove_dead_socket_folders()
        if slurm.job is None:
            raise HostError(nodes[0].name, "Slurm has this node back", advice="cluster.slurm.job names an allocation")
        job = SlurmJob(slurm.job, [node.name for node in nodes])
        return [SrunTransport(node, job, slurm, timeout) for node in nodes]

    @override
    async def is_over(self, job: int) -> bool:
        from flagperf.schedulers.slurm.job import is_over

        return await is_over(job)

    @override
    async def examine(self, job: JobConfig) -> list[Row] | None:
        from flagperf.schedulers.slurm.examine import examine

        return await examine(job)

    @override
    async def clean(self, job: JobConfig) -> tuple[list[Row], JobConfig]:
        """Cancel the Slurm jobs of dead runs; their processes end with them. The job gets the nodes of the user's
        allocation, because no other nodes can be reached.
        """
        from flagperf.hosts.findings import Row, failed_row
        from flagperf.schedulers.slurm.allocation import user_job, user_nodes
        from flagperf.schedulers.slurm.commands import SLURM
        from flagperf.schedulers.slurm.launcher_jobs import cancel_dead

        slurm, rows, nodes = _settings(job.cluster), list[Row](), tuple[Node, ...]()
        try:
            rows += [Row(SLURM, "clean", "ok", f"job {number}") for number in await cancel_dead()]
            rows = rows or [Row(SLURM, "clean", "ok", "nothing to remove")]
        except FlagperfError as error:
            rows.append(failed_row(SLURM, "clean", error))
        try:
            nodes = await user_nodes(slurm)
            if not nodes:
                advice = f"salloc --nodes=N flagperf clean cluster={job.cluster.name}"
                rows.append(Row(SLURM, "clean", "skipped", NOT_REACHED, advice))
        except FlagperfError as error:
            rows.append(failed_row(SLURM, "clean", error))
        held = replace(job.cluster, nodes=nodes, slurm=replace(slurm, job=user_job(slurm)))
        return rows, replace(job, cluster=held)

    @override
    async def queue_state(self, folder: Path) -> str:
        from flagperf.schedulers.slurm.queue_state import queue_state_of_run

        return await queue_state_of_run(folder)

    @override
    def contact(self, node: Node, cluster: Cluster) -> str:
        return f"reached by srun in job {_settings(cluster).job}"

    @override
    def with_final_states(self, folder: Path, summaries: Sequence[Summary]) -> Sequence[Summary]:
        from flagperf.schedulers.slurm.final_state import with_final_states

        return with_final_states(folder, summaries)


def _settings(cluster: Cluster) -> Settings:
    assert cluster.slurm is not None  # the section that selects this scheduler
    return cluster.slurm
