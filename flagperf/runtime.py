"""How a node's launch command is run: straight in the current environment, or in a container.

conf/runtime/<name>.yaml names it. One object serves one node in one round.
"""

from __future__ import annotations

from typing import Protocol

from flagperf.schema import NodePlan, Plan, RunConfig
from flagperf.transport import Process, Transport


class Runtime(Protocol):
    """Runs one node's part of a plan. Every method raises HostError when the host or its docker cannot do it."""

    async def check(self) -> None:
        """Refuse early what cannot work here; changes nothing on the host."""
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


class ProcessRuntime:
    """Runs the launch command as a process of the current environment."""

    def __init__(self, plan: Plan, node: NodePlan, transport: Transport) -> None:
        self.plan, self.node, self.transport = plan, node, transport

    async def check(self) -> None:
        return None

    async def prepare(self) -> None:
        return None

    async def launch(self) -> Process:
        log = f"{self.node.log_dir}/start_{self.plan.framework}_task.log"
        return await self.transport.start(self.node.launch, log=log, grace=self.plan.deadlines.stop)

    async def clean(self) -> None:
        return None


def make_runtime(run: RunConfig, plan: Plan, node: NodePlan, transport: Transport) -> Runtime:
    """The runtime that the configuration names."""
    if run.runtime["kind"] == "docker":
        from flagperf.container import DockerRuntime  # the docker SDK is heavy

        return DockerRuntime(run, plan, node, transport)
    return ProcessRuntime(plan, node, transport)
