"""Plan → the Kubernetes manifests of a round: an Indexed Job with one pod for each node, and the pods' files. Pure.

All nodes have one pod template. In place of the node's rank the template has a reference to the pod's index, which
Kubernetes replaces.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from flagperf.config.parts.data_layout import moved
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.kubernetes import Kubernetes
from flagperf.config.schema.values import JobConfig
from flagperf.contract.regular import yaml_text
from flagperf.errors import ConfigError
from flagperf.plan.environment import environment_script
from flagperf.plan.plan import SCRATCH, launch_command
from flagperf.plan.values import CONFIG, ENVIRONMENT, Plan, Rendezvous, launcher_log, with_script
from flagperf.schedulers.kubernetes.fields import POD_SPEC, SECURITY, TOLERATION, check_fields
from flagperf.schedulers.kubernetes.jobs import JOB_SET, QUEUE, indexed_job, job_set, suspended
from flagperf.schedulers.kubernetes.monitors import SCRIPT as MONITORS
from flagperf.schedulers.kubernetes.monitors import measured
from flagperf.schedulers.kubernetes.pods import JOB
from flagperf.schedulers.kubernetes.volumes import PARTS, POD, Volume, data_volumes, own_volumes, sample_dir

# `kubectl apply` copies an object into an annotation, which may have 256 KiB; in base64 a part has 200 KiB
PART = 150 * 1024  # bytes of an archive in one ConfigMap
MOST_PARTS = 64  # 9.4 MiB, compressed; code has less
GRACE = 90  # seconds from a pod's SIGTERM to SIGKILL: torchrun needs up to 30 for its ranks, then logs are printed

INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
NODE_RANK = "FLAGPERF_NODE_RANK"  # variable of a pod
ANY_RANK = "<node-rank>"  # stand-in for the rank in the plan; becomes a reference to the variable
SCRIPT = "pod.sh"
CAPABILITIES = ("DAC_OVERRIDE",)  # root of the container writes into claims and folders of other users
FREE = {"pod": POD_SPEC, "security": SECURITY, "tolerations": TOLERATION}  # keys with fields of Kubernetes


@dataclass(frozen=True)
class Payload:
    """The files of pods beside the configuration."""

    script: str  # flagperf/schedulers/kubernetes/pod.sh
    code: bytes  # the packages that the ranks import, a tar.gz


def manifests(
    job: JobConfig, plan: Plan, object_name: str, labels: Mapping[str, str], payload: Payload
) -> list[dict[str, Any]]:
    """The objects of a round, in the order of their creation.

    Args:
        job: on the Job's pods (`flagperf.schedulers.kubernetes.pods.on_pods`).
        plan: of the round, made of this job.
        object_name: of the Job.
        labels: of all objects.

    Raises:
        ConfigError: pods cannot run the job, or the cluster's file lacks a value.
    """
    pods = _settings(job)
    _check(job, pods)
    labels = {**pods.labels, **labels}
    namespace = {"namespace": pods.namespace} if pods.namespace else {}

    def api_object(kind: str, name: str, version: str = "v1", **content: Any) -> dict[str, Any]:
        metadata = {"name": name, **namespace, "labels": dict(labels)}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}

    code = [
        api_object("ConfigMap", f"{object_name}-code-{number}", binaryData={f"code.tar.gz.{number:02}": part})
        for number, part in enumerate(_parts_of_code(job, payload.code))
    ]
    config = api_object("ConfigMap", f"{object_name}-config", data=_files(job, plan, payload.script))
    code_names = [part["metadata"]["name"] for part in code]
    volumes = [*own_volumes(job, plan, pods, object_name, code_names), *data_volumes(job, pods)]
    annotations = {"annotations": dict(pods.annotations)} if pods.annotations else {}
    pod = {"metadata": {"labels": dict(labels), **annotations}, "spec": _pod(job, plan, object_name, pods, volumes)}
    job_spec = indexed_job(job.nnodes, pod, pods)
    if pods.job_set:
        started = [api_object("JobSet", object_name, JOB_SET, spec=job_set(object_name, job_spec, pods))]
    else:
        service = api_object("Service", object_name, spec=_service(object_name, plan.master_port))
        started = [service, api_object("Job", object_name, "batch/v1", spec=job_spec | suspended(pods))]
    if pods.queue:
        started[-1]["metadata"]["labels"][QUEUE] = pods.queue
    return [*code, config, *started]


def _parts_of_code(job: JobConfig, code: bytes) -> list[str]:
    """The archive of the code in base64, in parts that fit into ConfigMaps."""
    parts = [b64encode(code[start : start + PART]).decode() for start in range(0, len(code), PART)]
    if len(parts) > MOST_PARTS:
        raise ConfigError(
            "the code is too large for ConfigMaps",
            where=job.where("code_dir"),
            key="code_dir",
            given=f"{len(code) / 2**20:.1f} MiB compressed, with that of flagperf",
            allowed=f"{MOST_PARTS * PART / 2**20:.1f} MiB",
            advice="keep only code in this folder: data belongs into data_dir, libraries into the image",
        )
    return parts


def _files(job: JobConfig, plan: Plan, script: str) -> dict[str, str]:
    """The files of a pod beside the code."""
    return {
        CONFIG: _config(job, plan),
        ENVIRONMENT: environment_script(job),
        SCRIPT: script,
        MONITORS: measured(job).script(),
    }


def _settings(job: JobConfig) -> Kubernetes:
    assert job.cluster.kubernetes is not None  # checked by the caller
    return job.cluster.kubernetes


def _check(job: JobConfig, pods: Kubernetes) -> None:
    """Refuse what pods cannot do, and missing values of the cluster's file."""

    def refused(problem: str, key: str, given: object, advice: str) -> ConfigError:
        return ConfigError(problem, where=job.where(key), key=key, given=given, advice=advice)

    for name, kind in FREE.items():
        check_fields(getattr(pods, name), kind, f"cluster.kubernetes.{name}", job.where)
    if job.sized is not None:
        advice = "give the size that a run on one such host found"
        raise refused("pods cannot search for a batch size", "train_batch_size", "auto", advice)
    if job.resume is not None:
        raise refused("pods cannot resume a training", "resume", job.resume, "start the case from its beginning")
    if job.restarts:
        advice = "cluster.kubernetes.evictions=N starts the round again"
        raise refused("pods cannot resume a training", "restarts", job.restarts, advice)
    if pods.evictions and not pods.job_set:
        key, advice = "cluster.kubernetes.evictions", "cluster.kubernetes.job_set=true, or evictions=0"
        raise refused("only a JobSet starts a round again", key, pods.evictions, advice)
    if job.secrets and pods.secret is None:
        names = ", ".join(job.secrets)
        advice = f"make a Secret with the keys {names} (kubectl create secret generic), and name it here"
        raise refused("manifests hold no secrets", "cluster.kubernetes.secret", None, advice)


def _config(job: JobConfig, plan: Plan) -> str:
    """The ranks' configuration, without the pods: it is the same for any number of pods."""
    config = moved(plan.config, job.data_dir, sample) if (sample := sample_dir(job)) else plan.config
    cluster = {key: value for key, value in config["cluster"].items() if key != "nodes"}
    config = {**config, "cluster": cluster, "clear_caches": False}  # no pod may clear the caches of its host
    return yaml_text(config)


def _service(object_name: str, port: int) -> dict[str, Any]:
    """A headless Service, which gives the pods their host names, also before they are ready."""
    ports = [{"name": "rendezvous", "port": port}]
    return {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB: object_name}, "ports": ports}


def _pod(job: JobConfig, plan: Plan, object_name: str, pods: Kubernetes, volumes: Sequence[Volume]) -> dict[str, Any]:
    other_hosts = {"labelSelector": {"matchLabels": {JOB: object_name}}, "topologyKey": "kubernetes.io/hostname"}
    labels = {**job.hardware.node_labels, **pods.node_selector}
    sources = {volume.name: volume.source for volume in volumes}
    optional = {
        "nodeSelector": {key: value for key, value in labels.items() if value is not None},
        "tolerations": [dict(toleration) for toleration in pods.tolerations],
        "priorityClassName": pods.priority_class,
        "serviceAccountName": pods.service_account,
        "imagePullSecrets": [{"name": pods.image_pull_secret}] if pods.image_pull_secret else None,
        "activeDeadlineSeconds": pods.time_limit,
    }
    ranks = _container(job, plan, object_name, pods, volumes)
    spec = {
        "restartPolicy": "Never",
        "subdomain": object_name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE,
        **{key: value for key, value in optional.items() if value},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [other_hosts]}},
        **({"initContainers": [_side_container(ranks, pods.monitor_image)]} if pods.monitor_image else {}),
        "containers": [ranks],
        "volumes": [{"name": name, **source} for name, source in sources.items()],
    }
    if duplicate := next((name for name in pods.pod if name in spec), None):
        key = "cluster.kubernetes.pod"
        problem, advice = "flagperf itself writes this field of a pod's spec", "leave it out there"
        raise ConfigError(problem, where=job.where(key), key=key, given=duplicate, advice=advice)
    return {**spec, **pods.pod}


def _container(
    job: JobConfig, plan: Plan, object_name: str, pods: Kubernetes, volumes: Sequence[Volume]
) -> dict[str, Any]:
    """The container of all nodes. Its argv and variables refer to the pod's index."""
    node0 = plan.nodes[0]
    log_dir = PurePosixPath(node0.log_dir).with_name(f"{object_name}-{ANY_RANK}_noderank{ANY_RANK}")
    interface = job.cluster.rendezvous.interface
    rendezvous = Rendezvous(plan.master_address, plan.master_port, (interface,))
    launch = launch_command(
        job, Node(f"{object_name}-{ANY_RANK}", object_name), ANY_RANK, log_dir, rendezvous, interface
    )
    launcher = launcher_log(str(log_dir), plan.framework)
    paths = (PARTS, launch.env["PYTHONPATH"], str(log_dir), launcher, str(log_dir / SCRATCH))
    limits = (job.deadlines.start + job.deadlines.first_step, job.deadlines.stall)
    variables: list[dict[str, Any]] = [{"name": NODE_RANK, "valueFrom": {"fieldRef": {"fieldPath": INDEX}}}]
    variables += [{"name": name, "value": _referring(value)} for name, value in launch.env.items()]
    for name in job.secrets:
        variables.append({"name": name, "valueFrom": {"secretKeyRef": {"name": pods.secret, "key": name}}})
    assert job.image is not None  # a cluster of pods always has one
    resources = {**pods.resources, **_devices(job, pods)}
    return {
        "name": "ranks",
        "image": job.image.reference,
        "imagePullPolicy": pods.image_pull_policy,
        "command": ["sh", f"{POD}/{SCRIPT}"],
        "args": [
            _referring(text)
            for text in (
                *paths,
                *(f"{math.ceil(limit)}" for limit in limits),
                "" if pods.monitor_image else f"{POD}/{MONITORS}",
                *with_script(launch, node0.script, node0.config_file).argv,
            )
        ],
        "env": variables,
        **({"resources": {"limits": resources}} if resources else {}),
        "securityContext": _security(job, pods),
        "volumeMounts": [volume.mount() for volume in volumes],
    }


def _side_container(ranks: Mapping[str, Any], image: str) -> dict[str, Any]:
    """The container of the monitors, which starts before that of the ranks and ends after it."""
    mounts = [
        mount for mount in ranks["volumeMounts"] if mount["name"] in ("config", "work") and "subPath" not in mount
    ]
    log_dir = ranks["args"][2]
    return {
        "name": "monitors",
        "image": image,
        "imagePullPolicy": ranks["imagePullPolicy"],
        "restartPolicy": "Always",
        "command": ["sh", f"{POD}/{MONITORS}"],
        "args": [log_dir],
        "env": ranks["env"][:1],
        "securityContext": ranks["securityContext"],
        "volumeMounts": mounts,
    }


def _referring(text: str) -> str:
    """A text of a container's argv or variables. The node's rank becomes a reference."""
    return text.replace("$(", "$$(").replace(ANY_RANK, f"$({NODE_RANK})")


def _devices(job: JobConfig, pods: Kubernetes) -> dict[str, int]:
    """The resource of a pod's devices, and its quantity."""
    vendor = job.vendor
    if vendor.device == "cpu":
        return {}
    name = pods.device or vendor.device_plugin
    if name is None:
        key = "cluster.kubernetes.device"
        raise ConfigError(
            f"flagperf does not know by which resource Kubernetes gives devices of vendor {vendor.name}",
            where=job.where(key),
            key=key,
            allowed="the name that `kubectl describe node` shows below Capacity",
            advice=f"{key}=NAME",
        )
    per_card = job.hardware.devices_per_card if vendor.device_plugin_counts == "card" else 1
    return {name: math.ceil(job.nproc / per_card)}


def _security(job: JobConfig, pods: Kubernetes) -> dict[str, Any]:
    """The securityContext of the container: few rights, and the fields of the cluster's file in their place."""
    given = pods.security.get("capabilities")
    added = list(pods.capabilities)
    if given is None:
        capabilities = {"drop": ["ALL"], "add": [*CAPABILITIES, *added]}
    else:
        capabilities = {**({"add": added} if added else {}), **given}
    default: dict[str, Any] = {"capabilities": capabilities}
    if not pods.security.get("privileged") and not {"SYS_ADMIN", "CAP_SYS_ADMIN"} & {*(capabilities.get("add") or ())}:
        default["allowPrivilegeEscalation"] = False  # Kubernetes refuses false beside these two rights
    if "seccompProfile" not in (pods.pod.get("securityContext") or {}):
        is_free = "seccomp=unconfined" in job.vendor.container.security_opt
        default["seccompProfile"] = {"type": "Unconfined" if is_free else "RuntimeDefault"}
    return {**default, **pods.security, "capabilities": capabilities}
