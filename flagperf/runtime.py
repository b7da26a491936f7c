"""How a node's launch command is run: straight in the current environment, or in a container.

conf/runtime/<name>.yaml names it. One object serves one node in one round.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from flagperf import versions
from flagperf.errors import HostError
from flagperf.schema import Command, NodePlan, Plan, RunConfig
from flagperf.transport import Process, Transport

LOOK_TIMEOUT = 30.0  # seconds, for starting an interpreter once


class Runtime(Protocol):
    """Runs one node's part of a plan. Every method raises HostError when the host or its docker cannot do it."""

    facts: Mapping[str, str]  # what sys_info.log says of where the ranks run; known once prepared

    def place(self, plan: Plan, node: NodePlan) -> None:
        """Go by this plan from now on."""
        ...

    async def check(self) -> None:
        """Refuse early what cannot work here."""
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
        """Let go of the host."""
        ...


class ProcessRuntime:
    """Runs the launch command as a process of the current environment."""

    def __init__(self, plan: Plan, node: NodePlan, transport: Transport) -> None:
        self.transport = transport
        self.facts: Mapping[str, str] = {}
        self.place(plan, node)

    def place(self, plan: Plan, node: NodePlan) -> None:
        self.plan, self.node = plan, node

    async def check(self) -> None:
        """Refuse an interpreter that is not there, or that lacks the module which starts the ranks."""
        python, *words = self.node.launch.argv
        module = words[words.index("-m") + 1].partition(".")[0] if "-m" in words else "sys"
        if self._is_own(python) and find_spec(module):
            return
        look = f"import sys, importlib.util as util; sys.exit(util.find_spec({module!r}) is None)"
        done = await self.transport.run(Command((python, "-c", look)), timeout=LOOK_TIMEOUT)
        if done.exit_status:
            raise HostError(
                self.transport.host,
                done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{python} has no module {module}",
                advice="pip install 'flagperf[train]' for that python, name another with runtime.python=PATH, "
                "or train in a container with runtime=docker",
            )

    async def prepare(self) -> None:
        """Find out the versions in the environment of the ranks."""
        python = self.node.launch.argv[0]
        if self._is_own(python):
            self.facts = versions.versions()
            return
        done = await self.transport.run(
            Command((python, "-")), timeout=LOOK_TIMEOUT, stdin=Path(versions.__file__).read_bytes()
        )
        if done.exit_status == 0:
            self.facts = json.loads(done.stdout)

    async def launch(self) -> Process:
        log = f"{self.node.log_dir}/start_{self.plan.framework}_task.log"
        return await self.transport.start(self.node.launch, log=log, grace=self.plan.deadlines.stop)

    async def clean(self) -> None:
        return None

    async def close(self) -> None:
        return None

    def _is_own(self, python: str) -> bool:
        """Whether it is the launcher's own interpreter, which need not be started to know what it has."""
        return self.transport.local and python == sys.executable


def make_runtimes(run: RunConfig, plan: Plan, transports: Sequence[Transport]) -> list[Runtime]:
    """The runtime that the configuration names, for each node of a round."""
    nodes = zip(plan.nodes, transports, strict=True)
    if run.image is None:
        return [ProcessRuntime(plan, node, transport) for node, transport in nodes]
    from flagperf.docker_runtime import DockerRuntime  # the docker SDK is heavy
    from flagperf.image_supply import ImageSupply

    images = ImageSupply(run.image, run.cluster.work_dir)
    return [DockerRuntime(run, plan, node, transport, images) for node, transport in nodes]
