"""Does the Python of the ranks start in an image, with the framework and the vendor's plug-in?"""

from __future__ import annotations

from dataclasses import replace

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import RunConfig
from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.plan.plan import make_plan
from flagperf.plan.values import NodePlan

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


def said_start(where: str, status: int | None, output: str) -> str:
    """The modules that were imported. Raises HostError where they were not."""
    lines = output.strip().splitlines() or ["no output"]
    if status != 0:
        raise HostError(where, f"Python does not start there: {lines[-1]}", advice="see what the last line names")
    return lines[-1]
