"""Runtimes: ways to run a node's launch command, in the current environment or in a container.

conf/runtime/<name>.yaml names the runtime. One object serves one node in one round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from flagperf.config.parts.needs import needs_of
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.hosts.environment import ask
from flagperf.hosts.transport import Process, Transport
from flagperf.plan.values import NodePlan, Plan

log = logging.getLogger(__name__)


class Runtime(Protocol):
    """Runs one node's part of a plan. Every method raises HostError when the host or its docker cannot do the work."""

    facts: Mapping[str, str]  # lines of sys_info.log about the ranks' environment; known after `prepare`

    def adopt_plan(self, plan: Plan, node: NodePlan) -> None:
        """Use this plan from now on."""
        ...

    async def check(self) -> None:
        """Refuse a host on which the node's part cannot work."""
        return

    async def prepare(self) -> None:
        """Do long preparations, such as fetching the image. The measured start does not include them."""
        ...

    async def launch(self) -> Process:
        """Start the node's launch command. Its output goes to start_<framework>_task.log in the node's log folder."""
        ...

    async def hand_over(self) -> None:
        """Let the ended ranks' files belong to the user of the host."""
        return

    async def clean(self) -> None:
        """Remove everything that this object made on the host, if anything. Also called after a failure."""
        return

    async def close(self) -> None:
        """Close the connections of this object to the host."""
        return


class ProcessRuntime(Runtime):
    """Runs the launch command as a process of the current environment."""

    def __init__(self, job: JobConfig, plan: Plan, node: NodePlan, transport: Transport) -> None:
        self.job, self.transport = job, transport
        self.facts = {}
        self.adopt_plan(plan, node)

    @override
    def adopt_plan(self, plan: Plan, node: NodePlan) -> None:
        self.plan, self.node = plan, node

    @override
    async def prepare(self) -> None:
        self.facts = await environment(self.job, self.transport, self.node.launch, self.node.wrapper)

    @override
    async def launch(self) -> Process:
        log = self.plan.launcher_log(self.node)
        return await self.transport.start(self.node.start, log=log, grace=self.plan.deadlines.stop)


async def environment(
    job: JobConfig, transport: Transport, launch: Command, wrapper: tuple[str, ...] = ()
) -> dict[str, str]:
    """Versions in the environment of ranks that run without docker.

    Raises:
        HostError: the interpreter is missing, or lacks packages that the ranks need.
    """
    advice = (
        f"{job.framework.install}, name another with runtime.python=PATH, or train in a container with runtime=docker"
    )
    return await ask(transport, launch.argv[0], needs_of(job), advice, wrapper)


def make_runtimes(
    job: JobConfig,
    plan: Plan,
    ranks: Sequence[int],
    transports: Sequence[Transport],
    folder: Path = Path(),
    say: Callable[[str], None] = log.info,
) -> list[Runtime]:
    """The configured runtime, once for each node of a round that this launcher runs.

    Args:
        ranks, transports: node rank and transport of each node.
        folder: of the round on this machine, for the log of an image's build, beside the logs of the first node.
        say: takes messages about long work.
    """
    nodes = zip([plan.nodes[rank] for rank in ranks], transports, strict=True)
    if job.image is None:
        return [ProcessRuntime(job, plan, node, transport) for node, transport in nodes]
    from flagperf.docker.image_supply import ImageSupply
    from flagperf.docker.runtime import DockerRuntime  # the docker SDK is heavy

    logs = folder / Path(plan.nodes[ranks[0]].log_dir).name
    images = ImageSupply(job.image, job.cluster.work_dir, logs, say)
    return [DockerRuntime(job, plan, node, transport, images) for node, transport in nodes]
