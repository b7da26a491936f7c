"""The sections of schedulers in a cluster's file. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from flagperf.contract.fields import Count, CountFrom0, Field

LISTED = "nodes"
SOURCES = (LISTED, "slurm", "kubernetes", "scheduler")  # sections with a source of hosts; a cluster has one

TimeLimit = Annotated[
    str,
    Field(str, form=r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}", words="[days-]hours:minutes:seconds, or minutes, as text"),
]
LongOption = Annotated[
    str, Field(str, form="[a-z][a-z0-9-]*", words="a long option of Slurm's commands, without its --")
]


@dataclass(frozen=True)
class Slurm:
    """Settings of requests to Slurm; None: the site's default."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: TimeLimit | None = None
    gres: str | None = None  # of each node, such as gpu:a100:8, in place of gpus_per_node
    gpus_per_node: CountFrom0 | None = None  # None: nproc, where the vendor's devices are counted
    constraint: str | None = None
    exclusive: bool = True  # no other job runs on the nodes
    options: Mapping[LongOption, Any] = field(default_factory=dict)  # further ones; true: without a value
    shared: bool = True  # nodes have this machine's files at the same paths; false: all is sent and collected
    step: Mapping[LongOption, Any] = field(default_factory=dict)  # further options of srun, which reaches a node
    job: Count | None = None  # ID of an existing allocation; None: SLURM_JOB_ID, else a new allocation


def source_name(section: Any) -> str:
    """Name of the scheduler in a cluster's section; `nodes`: the section lists hosts.

    A section with a scheduler may list the scheduler's nodes, too.
    """
    if not isinstance(section, Mapping):  # of a folder of others
        return LISTED
    if isinstance(named := section.get("scheduler"), Mapping) and "name" in named:
        return str(named["name"])
    return next((name for name in SOURCES[1:] if section.get(name) is not None), LISTED)
