"""The pods of a round on Kubernetes as nodes of a plan: an Indexed Job makes one a node, and names them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from flagperf.config.schema.cluster import Node
from flagperf.config.schema.values import JobConfig
from flagperf.plan.container import LABEL, OWNER

JOB = f"{LABEL}.job"  # label by which the pods of a round are found
LONGEST = 63  # characters of a host name, and of the value of a label
OF_CASE = 32  # of a case's name in a host name: what the rest of the longest name leaves


def job_name(job: JobConfig, round_number: int, folder: Path, owner: str) -> str:
    """Name of a round's Job and Service: the same for the same folder and owner, and of no other round.

    With the number of a pod behind it, it is the pod's host name.
    """
    digest = hashlib.sha256(f"{owner}:{folder}:{job.name}".encode()).hexdigest()[:8]
    case = re.sub("[^a-z0-9]+", "-", job.case.lower())[:OF_CASE].strip("-") or "case"
    return f"{LABEL}-{case}-{digest}-r{round_number}"


def labels(object_name: str, folder: Path, owner: str) -> dict[str, str]:
    """What all objects of a round are labelled with."""
    told = {f"{LABEL}.run": folder.name, OWNER: owner, JOB: object_name}
    return {"app.kubernetes.io/name": "flagperf", **{key: _label_value(value) for key, value in told.items()}}


def _label_value(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:LONGEST].strip("-_.")


def on_pods(job: JobConfig, object_name: str) -> JobConfig:
    """The job with the pods of a Kubernetes Job as its nodes, which meet at the first.

    The Job's headless Service, of the same name, makes their host names known.
    """
    nodes = tuple(
        Node(name=f"{object_name}-{rank}", address=f"{object_name}-{rank}.{object_name}") for rank in range(job.nnodes)
    )
    return replace(job, cluster=replace(job.cluster, nodes=nodes))


def selector(wanted: Mapping[str, str]) -> str:
    """Labels as kubectl's option -l takes them."""
    return ",".join(f"{key}={value}" for key, value in wanted.items())
