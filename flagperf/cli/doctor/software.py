"""Does the Python of the ranks start, with the framework and the vendor's plug-in? Asked of a host, or of its image."""

from __future__ import annotations

from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING

from flagperf.command import Command
from flagperf.config.platform import Node
from flagperf.config.values import RunConfig
from flagperf.docker.runtime import remove
from flagperf.errors import HostError
from flagperf.hosts.leftovers import this_owner
from flagperf.plan.container import option_mounts, owned, sdk_arguments
from flagperf.plan.plan import make_plan
from flagperf.plan.values import Container, NodePlan

if TYPE_CHECKING:
    from docker import DockerClient

START_TIMEOUT = 120.0  # seconds; the first import of a framework reads gigabytes
START = """
import importlib, sys
modules = [importlib.import_module(name) for name in sys.argv[1:]]
print(", ".join(f"{module.__name__} {getattr(module, '__version__', '')}".strip() for module in modules))
"""


def alone(run: RunConfig, node: Node) -> NodePlan:
    """The plan of a node, as if it were the only one."""
    return make_plan(replace(run, nnodes=1, cluster=replace(run.cluster, nodes=(node,))), 1).nodes[0]


def starting(run: RunConfig, launch: Command) -> Command:
    """A command that imports what the ranks import first."""
    plugin = (run.vendor.plugin,) if run.vendor.plugin else ()
    return Command((launch.argv[0], "-c", START, run.framework.module, *plugin), launch.env)


def container_of(run: RunConfig, node: Node) -> Container:
    """A container as that of the ranks, without the folders of a run, that starts Python once."""
    plan = alone(run, node)
    assert plan.container is not None and run.container is not None
    once = replace(
        plan.container,
        name=f"flagperf-doctor-{token_hex(4)}",
        argv=starting(run, plan.launch).argv,
        mounts=option_mounts(run.container),
    )
    return owned(once, this_owner())


def start_in(client: DockerClient, container: Container) -> tuple[int, str]:
    """Run a container to its end, and remove it: exit status, and what it printed."""
    try:
        created = client.containers.create(**sdk_arguments(container))
        created.start()
        status = created.wait(timeout=START_TIMEOUT)["StatusCode"]
        return int(status), created.logs().decode(errors="replace")
    finally:
        remove(client, container.name)


def said_start(where: str, status: int | None, output: str) -> str:
    """The modules that were imported. Raises HostError where they were not."""
    lines = output.strip().splitlines() or ["no output"]
    if status != 0:
        raise HostError(where, f"Python does not start there: {lines[-1]}", advice="see what the last line names")
    return lines[-1]
