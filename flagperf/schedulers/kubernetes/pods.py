"""The pods of a round as nodes of a plan. An Indexed Job makes and names one pod for each node."""

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
JOB_OF_SET = "n"  # name of the only Job in a JobSet; Kubernetes adds its number, 0
LONGEST = 63  # characters of a host name, and of the value of a label
OF_CASE = 28  # characters of a case's name in a host name; the other parts need the rest of LONGEST


def job_name(job: JobConfig, round_number: int, folder: Path, owner: str) -> str:
    """Name of a round's Job and Service, unique for folder, owner and round.

    The host name of a pod is this name with the number of the pod.
    """
    digest = hashlib.sha256(f"{owner}:{folder}:{job.name}".encode()).hexdigest()[:8]
    case = re.sub("[^a-z0-9]+", "-", job.case.lower())[:OF_CASE].strip("-") or "case"
    return f"{LABEL}-{case}-{digest}-r{round_number}"


def labels(object_name: str, folder: Path, owner: str) -> dict[str, str]:
    """The labels of all objects of a round."""
    own_labels = {f"{LABEL}.run": folder.name, OWNER: owner, JOB: object_name}
    return {"app.kubernetes.io/name": "flagperf", **{key: _label_value(value) for key, value in own_labels.items()}}


def _label_value(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:LONGEST].strip("-_.")


def on_pods(job: JobConfig, object_name: str) -> JobConfig:
    """The job with the pods of a Kubernetes Job as its nodes.

    The Job's headless Service of the same name publishes their host names.
    """
    in_set = job.cluster.kubernetes is not None and job.cluster.kubernetes.job_set
    host = f"{object_name}-{JOB_OF_SET}-0" if in_set else object_name
    nodes = tuple(
        Node(name=f"{object_name}-{rank}", address=f"{host}-{rank}.{object_name}") for rank in range(job.nnodes)
    )
    return replace(job, cluster=replace(job.cluster, nodes=nodes))


def selector(labels: Mapping[str, str]) -> str:
    """Labels in the form of kubectl's option -l."""
    return ",".join(f"{key}={value}" for key, value in labels.items())
