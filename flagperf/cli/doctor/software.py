"""The command that starts the Python of the ranks in an image, with the framework and the vendor's plug-in."""

from __future__ import annotations

from dataclasses import replace

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.plan.plan import make_plan
from flagperf.plan.values import NodePlan

START = """
import importlib, sys
modules = [importlib.import_module(name) for name in sys.argv[1:]]
print(", ".join(f"{module.__name__} {getattr(module, '__version__', '')}".strip() for module in modules))
"""


def plan_of_node(job: JobConfig, node: Node) -> NodePlan:
    """The plan of a node as the only node of the job."""
    return make_plan(replace(job, nnodes=1, cluster=replace(job.cluster, nodes=(node,))), 1).nodes[0]


def starting(job: JobConfig, launch: Command) -> Command:
    """A command that imports the first modules of the ranks."""
    plugin = (job.vendor.plugin,) if job.vendor.plugin else ()
    return Command((launch.argv[0], "-c", START, job.framework.module, *plugin), launch.env)


def started_modules(where: str, status: int | None, output: str) -> str:
    """The modules that were imported. Raises HostError where they were not."""
    lines = output.strip().splitlines() or ["no output"]
    if status != 0:
        raise HostError(where, f"Python does not start there: {lines[-1]}", advice="see what the last line names")
    return lines[-1]
