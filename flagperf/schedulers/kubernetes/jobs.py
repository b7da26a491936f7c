"""What starts the pods of a round: an Indexed Job, alone or in a JobSet, in a queue of Kueue or not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flagperf.config.schema.kubernetes import Kubernetes
from flagperf.schedulers.kubernetes.pods import JOB_OF_SET

JOB_SET = "jobset.x-k8s.io/v1alpha2"  # apiVersion
QUEUE = "kueue.x-k8s.io/queue-name"  # label of the object that waits in the queue
EVICTED = {"type": "DisruptionTarget", "status": "True"}  # condition of a pod: evicted, preempted, or its node was lost
BY_POLICY = "PodFailurePolicy"  # reason of a Job that its podFailurePolicy ended


def indexed_job(nnodes: int, template: Mapping[str, Any], pods: Kubernetes) -> dict[str, Any]:
    """A Job with one attempt for each pod. With `backoffLimit: 0` one failed pod would end all pods and their logs.

    If an eviction starts the round again, it ends the Job: the other ranks would wait for the evicted ones.
    """
    rule = {"action": "FailJob", "onPodConditions": [EVICTED]}
    return {
        "completionMode": "Indexed",
        "completions": nnodes,
        "parallelism": nnodes,
        "backoffLimitPerIndex": 0,
        **({"podFailurePolicy": {"rules": [rule]}} if pods.evictions else {}),
        "template": template,
    }


def job_set(object_name: str, job: Mapping[str, Any], pods: Kubernetes) -> dict[str, Any]:
    """A JobSet with one Job. The controller makes the headless Service that gives the pods their host names."""
    rules = [
        {"name": "evicted", "action": "RestartJobSet", "onJobFailureReasons": [BY_POLICY]},
        {"name": "failed", "action": "FailJobSet"},
    ]
    return {
        "network": {"enableDNSHostnames": True, "subdomain": object_name, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": pods.evictions, **({"rules": rules} if pods.evictions else {})},
        "replicatedJobs": [{"name": JOB_OF_SET, "replicas": 1, "template": {"spec": dict(job)}}],
        **suspended(pods),
    }


def suspended(pods: Kubernetes) -> dict[str, bool]:
    """Objects in a queue begin suspended: Kueue starts them."""
    return {"suspend": True} if pods.queue else {}
