"""The section `kubernetes` of a cluster's file. All frozen; conf/cluster/kubernetes.yaml explains the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from flagperf.contract.fields import AbsolutePath, ByteSize, Count, CountFrom0, Field, ImageReference, MountTarget

# The forms are those of https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and …/labels/.
_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

ObjectName = Annotated[str, Field(str, form=_NAME, words="a name of lower-case letters, digits, - and .")]
Namespace = Annotated[
    str,
    Field(str, form=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", words="at most 63 lower-case letters, digits and -"),
]
QualifiedName = Annotated[str, Field(str, form=f"({_NAME}/)?{_WORD}", words="[domain/]name, such as nvidia.com/gpu")]
LabelValue = Annotated[str, Field(str, form=f"({_WORD})?", words="at most 63 letters, digits, -, _ and .")]
Quantity = Annotated[
    str,
    Field(str, form=r"\d+(\.\d+)?(m|k|[MGTPE]|[KMGTPE]i)?", words="a quantity as text, such as '64' or 256Gi"),
]


@dataclass(frozen=True)
class Kubernetes:
    """Settings of the pods of a run: one pod for each node."""

    namespace: Namespace | None = None  # None: that of kubectl's context
    image: ImageReference | None = None  # None: the one that the vendor names
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secret: ObjectName | None = None  # of the namespace, for the registry
    monitor_image: ImageReference | None = None  # of a side container with the monitors; None: beside the ranks
    device: QualifiedName | None = None  # resource of the devices; None: the vendor's `device_plugin`
    resources: Mapping[QualifiedName, Quantity] = field(default_factory=dict)  # further ones of each pod
    capabilities: tuple[str, ...] = ()  # of the container, such as IPC_LOCK for RDMA
    security: Mapping[str, Any] = field(default_factory=dict)  # further fields of the container's securityContext
    node_selector: Mapping[QualifiedName, LabelValue | None] = field(default_factory=dict)  # null: not that label
    tolerations: tuple[Mapping[str, Any], ...] = ()  # as a pod's spec has them
    labels: Mapping[QualifiedName, LabelValue] = field(default_factory=dict)  # further ones, of all objects
    annotations: Mapping[QualifiedName, str] = field(default_factory=dict)  # of the pods
    pod: Mapping[str, Any] = field(default_factory=dict)  # further fields of the pods' spec, as Kubernetes has them
    queue: ObjectName | None = None  # Kueue's LocalQueue of the namespace
    job_set: bool = False  # a JobSet with the Job in it, in place of the Job
    evictions: CountFrom0 = 0  # of a JobSet: evictions after which the round starts again
    priority_class: ObjectName | None = None
    service_account: ObjectName | None = None
    shm_size: ByteSize = "32g"  # of /dev/shm, in memory
    data_claim: ObjectName | None = None  # PersistentVolumeClaim with the data …
    data_path: AbsolutePath | None = None  # … else the folder of each node that has it; None: data_dir
    work_claim: ObjectName | None = None  # PersistentVolumeClaim for logs and checkpoints; None: they go with the pod
    mounts: Mapping[AbsolutePath, MountTarget | None] = field(default_factory=dict)  # further folders of the nodes
    secret: ObjectName | None = None  # Secret whose keys are the names of the run's secret variables
    time_limit: Count | None = None  # seconds after which a pod is stopped
