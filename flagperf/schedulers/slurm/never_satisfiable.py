"""Slurm's reasons why a job can never begin. Pure.

The names are those of `squeue`'s man page and of Slurm's library. Temporary reasons are left out: limits of all jobs of
a user together, holds, nodes and partitions that are down.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PARTITION = "`scontrol show partition` shows its limits"
REASONS = {  # reason → its meaning, and advice
    "PartitionNodeLimit": (
        "the partition does not give so many nodes to one job",
        f"give another nnodes or cluster.slurm.partition; {PARTITION}",
    ),
    "PartitionTimeLimit": (
        "the partition does not give nodes for so long",
        f"give a shorter cluster.slurm.time, or another cluster.slurm.partition; {PARTITION}",
    ),
    "PartitionConfig": (
        "the partition has no such nodes: too few, or too small ones",
        "ask for fewer nodes or for less on each (nnodes, nproc, options), or give another cluster.slurm.partition; "
        "`sinfo -N -o '%N %c %m %G'` shows what the nodes have",
    ),
    "BadConstraints": (
        "no nodes have what is asked for together",
        "change cluster.slurm.constraint, gres or options; `sinfo -N -o '%N %f %G'` shows what the nodes have",
    ),
    "AccountNotAllowed|InvalidAccount": (
        "the account may not be used there",
        "give another cluster.slurm.account or partition; `sacctmgr show associations user=$USER` shows yours",
    ),
    "QOSNotAllowed|InvalidQOS": (
        "the QOS may not be used there",
        "give another cluster.slurm.qos or partition; `sacctmgr show associations user=$USER` shows yours",
    ),
    "ReservationDeleted": (
        "the reservation is gone",
        "give another reservation in cluster.slurm.options, or none; `scontrol show reservation` shows them",
    ),
    "DependencyNeverSatisfied": (
        "the job waits for another job that did not end as asked for",
        "take the dependency out of cluster.slurm.options",
    ),
    r"(Assoc|QOS)Max\w*Per(Job|Node)(Limit)?|QOSMin\w+|MaxMemPerLimit": (
        "the job does not keep to a limit that the account or the QOS sets for each job",
        "change nnodes, cluster.slurm.time or what a node is asked for; `sacctmgr show qos` and `sacctmgr show "
        "associations` show the limits",
    ),
}


class NeverSatisfiable(NamedTuple):
    """A request that Slurm can never meet."""

    sentence: str  # with Slurm's name of the reason
    advice: str


def never_satisfiable(queued: str) -> NeverSatisfiable | None:
    """Why a job can never begin; None where waiting may help. `queued`: the text of `waiting_text`."""
    match = re.search(r"reason (\w+),", queued)
    reason = match[1] if match else ""
    for reasons, (meaning, advice) in REASONS.items():
        if re.fullmatch(reasons, reason):
            return NeverSatisfiable(f"{meaning} ({reason})", advice)
    return None
