"""The volumes of a pod: files of flagperf, and the data at the paths of the ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from flagperf.config.schema.kubernetes import Kubernetes
from flagperf.config.schema.values import JobConfig
from flagperf.contract.fields import size_in_bytes
from flagperf.contract.sample_data import is_sample_folder
from flagperf.plan.container import sample_root
from flagperf.plan.plan import CODE
from flagperf.plan.values import CONFIG, ENVIRONMENT, Plan

POD, PARTS = "/flagperf/pod", "/flagperf/code"  # folders of the pod's script, and of the parts of the code


@dataclass(frozen=True)
class Volume:
    """One mount of a pod, with its volume. Several mounts may share a volume."""

    name: str  # of the volume
    source: Mapping[str, Any]
    path: str  # in the container
    read_only: bool = True
    sub_path: str | None = None

    def mount(self) -> dict[str, Any]:
        """The item of `volumeMounts`."""
        read_only = {"readOnly": True} if self.read_only else {}
        sub_path = {"subPath": self.sub_path} if self.sub_path else {}
        return {"name": self.name, "mountPath": self.path, **read_only, **sub_path}


def sample_dir(job: JobConfig) -> str | None:
    """The folder in which a pod of any user makes sample data; None: the job needs no sample data."""
    if not is_sample_folder(job.config):
        return None
    return str(PurePosixPath(sample_root(job, job.cluster.nodes[0]), PurePosixPath(job.data_dir).name))


def own_volumes(
    job: JobConfig, plan: Plan, pods: Kubernetes, object_name: str, code_names: Sequence[str]
) -> Iterator[Volume]:
    """Volumes for flagperf itself: script and configuration, code, the folder of logs, shared memory."""
    node0 = plan.nodes[0]
    config = {"configMap": {"name": f"{object_name}-config"}}
    claim = {"persistentVolumeClaim": {"claimName": pods.work_claim}} if pods.work_claim else {"emptyDir": {}}
    memory = {"emptyDir": {"medium": "Memory", "sizeLimit": str(size_in_bytes(pods.shm_size))}}
    yield Volume("config", config, POD)
    yield Volume("parts", {"projected": {"sources": [{"configMap": {"name": name}} for name in code_names]}}, PARTS)
    yield Volume("work", claim, job.cluster.work_dir, read_only=False)
    yield Volume("code", {"emptyDir": {}}, str(PurePosixPath(node0.case_dir).parent / CODE), read_only=False)
    yield Volume("config", config, node0.config_file, sub_path=CONFIG)
    yield Volume("config", config, node0.environment_file, sub_path=ENVIRONMENT)
    yield Volume("shm", memory, "/dev/shm", read_only=False)


def data_volumes(job: JobConfig, pods: Kubernetes) -> Iterator[Volume]:
    """Volumes of the data, checkpoints and further mounts, at the paths of the ranks."""
    data_dir = PurePosixPath(job.data_dir)
    if sample := sample_dir(job):
        yield Volume("data", {"emptyDir": {}}, str(PurePosixPath(sample).parent), read_only=False)
    elif pods.data_claim:
        claim = {"claimName": pods.data_claim, "readOnly": True}
        yield Volume("data", {"persistentVolumeClaim": claim}, job.data_dir)
    else:
        yield Volume("data", {"hostPath": {"path": pods.data_path or job.data_dir, "type": "Directory"}}, job.data_dir)
    if job.init_checkpoint and not PurePosixPath(job.init_checkpoint).is_relative_to(data_dir):
        yield Volume("checkpoint", {"hostPath": {"path": job.init_checkpoint}}, job.init_checkpoint)
    for number, (source, target) in enumerate(pods.mounts.items()):
        if target is not None:
            path, writable = target.removesuffix(":rw"), target.endswith(":rw")
            yield Volume(f"mount-{number}", {"hostPath": {"path": source}}, path, read_only=not writable)
