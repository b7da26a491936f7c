"""How a node's launch command is run: straight in the current environment, or in a container.

conf/runtime/<name>.yaml names it. One object serves one node in one round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from flagperf.config.parts.needs import needs_of
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.hosts.environment import ask
from flagperf.hosts.transport import Process, Transport
from flagperf.plan.values import NodePlan, Plan

log = logging.getLogger(__name__)


class Runtime(Protocol):
    """Runs one node's part of a plan. Every method raises HostError when the host or its docker cannot do it."""

    facts: Mapping[str, str]  # what sys_info.log says of where the ranks run; known once prepared

    def adopt_plan(self, plan: Plan, node: NodePlan) -> None:
        """Go by this plan from now on."""
        ...

    async def check(self) -> None:
        """Refuse what cannot work on this host."""
        ...

    async def prepare(self) -> None:
        """Make ready what takes long, such as the image; not part of the measured start."""
        ...

    async def launch(self) -> Process:
        """Start the node's launch command; its output goes to start_<framework>_task.log in the node's log folder."""
        ...

    async def clean(self) -> None:
        """Remove what this object made on the host; also called after a failure, and when nothing was made."""
        ...

    async def close(self) -> None:
        """End the connections that it has made to the host."""
        ...


class ProcessRuntime:
    """Runs the launch command as a process of the current environment."""

    def __init__(self, job: JobConfig, plan: Plan, node: NodePlan, transport: Transport) -> None:
        self.job, self.transport = job, transport
        self.facts: Mapping[str, str] = {}
        self.adopt_plan(plan, node)

    def adopt_plan(self, plan: Plan, node: NodePlan) -> None:
        self.plan, self.node = plan, node

    async def check(self) -> None:
        return None

    async def prepare(self) -> None:
        self.facts = await environment(self.job, self.transport, self.node.launch, self.node.wrapper)

    async def launch(self) -> Process:
        log = self.plan.launcher_log(self.node)
        return await self.transport.start(self.node.start, log=log, grace=self.plan.deadlines.stop)

    async def clean(self) -> None:
        return None

    async def close(self) -> None:
        return None


async def environment(
    job: JobConfig, transport: Transport, launch: Command, wrapper: tuple[str, ...] = ()
) -> dict[str, str]:
    """Versions in the environment of ranks that run without docker.

    Raises:
        HostError: the interpreter is not there, or lacks something that they need.
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
    """The runtime that the configuration names, for each node of a round that is run from here.

    Args:
        ranks, transports: node rank of each, and the way to it.
        folder: of the round on this machine, where the log of an image's build goes beside those of the first of them.
        say: hears of what takes long.
    """
    nodes = zip([plan.nodes[rank] for rank in ranks], transports, strict=True)
    if job.image is None:
        return [ProcessRuntime(job, plan, node, transport) for node, transport in nodes]
    from flagperf.docker.image_supply import ImageSupply
    from flagperf.docker.runtime import DockerRuntime  # the docker SDK is heavy

    logs = folder / Path(plan.nodes[ranks[0]].log_dir).name
    images = ImageSupply(job.image, job.cluster.work_dir, logs, say)
    return [DockerRuntime(job, plan, node, transport, images) for node, transport in nodes]
