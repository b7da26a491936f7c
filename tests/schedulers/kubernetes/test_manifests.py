"""The manifests of a round, compared whole, and held against the schemas that Kubernetes publishes."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from example import example_job
from kubeflow_trainer_api.models import JobsetV1alpha2JobSet
from refusals import lines

from flagperf.config.compose import compose
from flagperf.config.schema.cluster import Cluster, Secret
from flagperf.config.schema.kubernetes import Kubernetes
from flagperf.config.schema.platform import ContainerOptions, Hardware, Image, Vendor
from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import build
from flagperf.errors import ConfigError
from flagperf.plan.environment import environment_script
from flagperf.plan.plan import make_plan
from flagperf.schedulers.kubernetes.manifests import PART, Payload, manifests
from flagperf.schedulers.kubernetes.monitors import Measured, measured
from flagperf.schedulers.kubernetes.pods import job_name, labels, on_pods
from flagperf.schedulers.kubernetes.text import manifest_text
from flagperf.secret import HIDDEN

SCHEMAS = ("1.29", "1.33", "1.37")  # of Kubernetes
ANNOTATION = 256 * 1024  # bytes that the annotation of `kubectl apply` may have: the object as JSON
RUN, OWNER = Path("/res/run1"), "me.login1"
GPU = Vendor("acme", "GPUs of Acme", "cuda", "nccl", None, None, device_plugin="acme.com/gpu")
PODS = Cluster("k8s", "pods", kubernetes=Kubernetes(namespace="bench"), work_dir="/work")
SENT = Payload("#!/bin/sh\n", b"code")
DEVICES = [
    ("amd", "MI300X", "amd.com/gpu", 8),
    ("ascend", "Atlas800TA2", "huawei.com/Ascend910", 8),
    ("cambricon", "MLU", "cambricon.com/mlu", 8),
    ("dcu", "K100", "hygon.com/dcu", 8),
    ("iluvatar", "BI-V150", "iluvatar.com/gpu", 4),
    ("intel", "Gaudi3", "habana.ai/gaudi", 8),
    ("intel", "Max1550", "gpu.intel.com/i915", 6),
    ("kunlunxin", "R300", "kunlunxin.com/xpu", 8),
    ("metax", "C500", "metax-tech.com/gpu", 8),
    ("mthreads", "S4000", "mthreads.com/gpu", 8),
    ("nvidia", "A100", "nvidia.com/gpu", 8),
]


def validate(document: Mapping[str, Any]) -> None:
    """Hold an object against the published schemas of several versions of Kubernetes."""
    for version in SCHEMAS:
        kubernetes_validate.validate(document, version, strict=True)


def pod_job(pods: Kubernetes | None = None, **fields: Any) -> JobConfig:
    cluster = replace(PODS, **fields.pop("cluster", {}))
    cluster = replace(cluster, kubernetes=pods or cluster.kubernetes)
    given = {"nnodes": 2, "vendor": GPU, "image": Image("reg/image:1", "present"), **fields}
    job = example_job(cluster=cluster, **given)
    return replace(job, config={**job.config, "cluster": {"name": "k8s"}})


def made(job: JobConfig, number: int = 1, payload: Payload = SENT) -> list[dict[str, Any]]:
    object_name = job_name(job, number, RUN, OWNER)
    there = on_pods(job, object_name)
    return manifests(there, make_plan(there, number, RUN), object_name, labels(object_name, RUN, OWNER), payload)


def pod_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(documents[-1]["spec"]["template"]["spec"])


def container_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(pod_of(documents)["containers"][0])


JOB = "flagperf-sums-8c312859-r1"
LABELS = {
    "app.kubernetes.io/name": "flagperf",
    "flagperf.run": "run1",
    "flagperf.owner": OWNER,
    "flagperf.job": JOB,
}
META = {"namespace": "bench", "labels": LABELS}
LOGS = "/work/run1/sums-pytorch-cpux2x2/round1/JOB-$(FLAGPERF_NODE_RANK)_noderank$(FLAGPERF_NODE_RANK)".replace(
    "JOB", JOB
)
CONFIG = "/work/run1/sums-pytorch-cpux2x2/round1/config.yaml"
ENVIRONMENT = "/work/run1/sums-pytorch-cpux2x2/round1/environment.sh"
EXPECTED_POD = {
    "restartPolicy": "Never",
    "subdomain": JOB,
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "terminationGracePeriodSeconds": 90,
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"flagperf.job": JOB}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    },
    "containers": [
        {
            "name": "ranks",
            "image": "reg/image:1",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "/flagperf/pod/pod.sh"],
            "args": [
                *("/flagperf/code", "/work/run1/code", LOGS, f"{LOGS}/start_pytorch_task.log", f"{LOGS}/.scratch"),
                *("900", "300"),  # deadlines
                "/flagperf/pod/monitors.sh",
                "/bin/sh",
                ENVIRONMENT,
                *("python3", "--nnodes", "2", "--nproc", "2", "--rank", "$(FLAGPERF_NODE_RANK)"),
                *("--to", f"{JOB}-0.{JOB}:29500", CONFIG),
            ],
            "env": [
                {
                    "name": "FLAGPERF_NODE_RANK",
                    "valueFrom": {
                        "fieldRef": {
                            "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
                        }
                    },
                },
                {"name": "FLAGPERF_LOG_DIR", "value": LOGS},
                {"name": "PYTHONFAULTHANDLER", "value": "1"},
                {"name": "PYTHONPATH", "value": "/work/run1/code"},
            ],
            "resources": {"limits": {"acme.com/gpu": 2}},
            "securityContext": {
                "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
                "allowPrivilegeEscalation": False,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumeMounts": [
                {"name": "config", "mountPath": "/flagperf/pod", "readOnly": True},
                {"name": "parts", "mountPath": "/flagperf/code", "readOnly": True},
                {"name": "work", "mountPath": "/work"},
                {"name": "code", "mountPath": "/work/run1/code"},
                {"name": "config", "mountPath": CONFIG, "readOnly": True, "subPath": "config.yaml"},
                {"name": "config", "mountPath": ENVIRONMENT, "readOnly": True, "subPath": "environment.sh"},
                {"name": "shm", "mountPath": "/dev/shm"},
                {"name": "data", "mountPath": "/data", "readOnly": True},
            ],
        }
    ],
    "volumes": [
        {"name": "config", "configMap": {"name": f"{JOB}-config"}},
        {"name": "parts", "projected": {"sources": [{"configMap": {"name": f"{JOB}-code-0"}}]}},
        {"name": "work", "emptyDir": {}},
        {"name": "code", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "34359738368"}},
        {"name": "data", "hostPath": {"path": "/data", "type": "Directory"}},
    ],
}


def test_the_objects_of_two_nodes() -> None:
    config = yaml.safe_dump({**pod_job().config, "resume": None, "clear_caches": False}, sort_keys=False, width=120)
    assert made(pod_job()) == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{JOB}-code-0", **META},
            "binaryData": {"code.tar.gz.00": "Y29kZQ=="},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{JOB}-config", **META},
            "data": {
                "config.yaml": config,
                "environment.sh": environment_script(pod_job()),
                "pod.sh": "#!/bin/sh\n",
                "monitors.sh": measured(pod_job()).script(),
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": JOB, **META},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {"flagperf.job": JOB},
                "ports": [{"name": "rendezvous", "port": 29500}],
            },
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": JOB, **META},
            "spec": {
                "completionMode": "Indexed",
                "completions": 2,
                "parallelism": 2,
                "backoffLimitPerIndex": 0,
                "template": {"metadata": {"labels": LABELS}, "spec": EXPECTED_POD},
            },
        },
    ]


SAID: dict[str, tuple[Kubernetes, dict[str, Any], dict[str, Any]]] = {
    "where pods may run": (
        Kubernetes(
            node_selector={"pool": "train", "acme.com/product": None},
            tolerations=({"key": "acme.com/gpu", "operator": "Exists"},),
            priority_class="high",
            service_account="bench",
            pod={"runtimeClassName": "acme", "hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
            image_pull_secret="registry",
            time_limit=600,
        ),
        {"hardware": Hardware("X1", "X1", None, None, {}, node_labels={"acme.com/product": "X1", "acme.com/gen": "1"})},
        {
            "nodeSelector": {"acme.com/gen": "1", "pool": "train"},
            "tolerations": [{"key": "acme.com/gpu", "operator": "Exists"}],
            "priorityClassName": "high",
            "serviceAccountName": "bench",
            "runtimeClassName": "acme",
            "hostNetwork": True,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "imagePullSecrets": [{"name": "registry"}],
            "activeDeadlineSeconds": 600,
        },
    ),
    "data of a claim, and logs on one": (
        Kubernetes(data_claim="imagenet", work_claim="results"),
        {},
        {
            "volumes": [
                *EXPECTED_POD["volumes"][:2],  # type: ignore[index]
                {"name": "work", "persistentVolumeClaim": {"claimName": "results"}},
                *EXPECTED_POD["volumes"][3:5],  # type: ignore[index]
                {"name": "data", "persistentVolumeClaim": {"claimName": "imagenet", "readOnly": True}},
            ]
        },
    ),
    "data elsewhere on the nodes, and further folders": (
        Kubernetes(data_path="/mnt/data", mounts={"/opt/tool": "/opt/tool", "/scratch": "/scratch:rw", "/no": None}),
        {"init_checkpoint": "/weights/start.pt"},
        {
            "volumes": [
                *EXPECTED_POD["volumes"][:5],  # type: ignore[index]
                {"name": "data", "hostPath": {"path": "/mnt/data", "type": "Directory"}},
                {"name": "checkpoint", "hostPath": {"path": "/weights/start.pt"}},
                {"name": "mount-0", "hostPath": {"path": "/opt/tool"}},
                {"name": "mount-1", "hostPath": {"path": "/scratch"}},
            ]
        },
    ),
}


@pytest.mark.parametrize(("pods", "fields", "expected"), SAID.values(), ids=SAID.keys())
def test_what_the_cluster_file_says_of_pods(
    pods: Kubernetes, fields: dict[str, Any], expected: Mapping[str, Any]
) -> None:
    documents = made(pod_job(replace(pods, namespace="bench"), **fields))
    validate(documents[-1])
    pod = pod_of(documents)
    assert {key: pod[key] for key in expected} == expected


def test_what_the_cluster_file_says_of_the_container() -> None:
    pods = Kubernetes(
        image_pull_policy="Always",
        device="acme.com/other",
        resources={"cpu": "8"},
        secret="own",
    )
    actual = container_of(made(pod_job(pods, secrets={"HF_TOKEN": HIDDEN}, nproc=3)))
    secret = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "own", "key": "HF_TOKEN"}}}
    assert actual["env"][-1] == secret
    assert [actual[key] for key in ("imagePullPolicy", "resources")] == [
        "Always",
        {"limits": {"cpu": "8", "acme.com/other": 3}},
    ]


DROP = {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}
CLOSED = {"allowPrivilegeEscalation": False}
SECCOMP = {"seccompProfile": {"type": "RuntimeDefault"}}
FREE = replace(GPU, container=ContainerOptions(security_opt=("seccomp=unconfined",)))
SECURITY: dict[str, tuple[Kubernetes, Vendor, dict[str, Any]]] = {
    "RDMA": (
        Kubernetes(capabilities=("IPC_LOCK",)),
        GPU,
        {"capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "IPC_LOCK"]}, **CLOSED, **SECCOMP},
    ),
    "a vendor without seccomp": (
        Kubernetes(),
        FREE,
        {"capabilities": DROP, **CLOSED, "seccompProfile": {"type": "Unconfined"}},
    ),
    "the level restricted": (
        Kubernetes(
            security={**CLOSED, "capabilities": {"drop": ["ALL"]}},
            pod={"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}},
        ),
        FREE,
        {"capabilities": {"drop": ["ALL"]}, **CLOSED},
    ),
    "capabilities of the site's own": (
        Kubernetes(capabilities=("IPC_LOCK",), security={"runAsUser": 1000, "capabilities": {"drop": ["NET_RAW"]}}),
        GPU,
        {"capabilities": {"add": ["IPC_LOCK"], "drop": ["NET_RAW"]}, **CLOSED, **SECCOMP, "runAsUser": 1000},
    ),
    "all rights": (
        Kubernetes(security={"privileged": True}),
        GPU,
        {"capabilities": DROP, **SECCOMP, "privileged": True},
    ),
    "rights that need escalation": (
        Kubernetes(capabilities=("SYS_ADMIN",)),
        GPU,
        {"capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "SYS_ADMIN"]}, **SECCOMP},
    ),
}


@pytest.mark.parametrize(("pods", "vendor", "expected"), SECURITY.values(), ids=SECURITY.keys())
def test_pods_have_few_rights(pods: Kubernetes, vendor: Vendor, expected: dict[str, Any]) -> None:
    documents = made(pod_job(replace(pods, monitor_image="reg/tool:1"), vendor=vendor))
    validate(documents[-1])
    pod = pod_of(documents)
    found = [container["securityContext"] for part in ("containers", "initContainers") for container in pod[part]]
    assert found == [expected, expected]


def test_monitors_in_a_side_container() -> None:
    documents = made(pod_job(Kubernetes(monitor_image="reg/tool:1")))
    validate(documents[-1])
    assert (
        pod_of(documents)["initContainers"]
        == [
            {
                "name": "monitors",
                "image": "reg/tool:1",
                "imagePullPolicy": "IfNotPresent",
                "restartPolicy": "Always",  # it runs beside the ranks, and Kubernetes ends it after them
                "command": ["sh", "/flagperf/pod/monitors.sh"],
                "args": [LOGS],
                "env": EXPECTED_POD["containers"][0]["env"][:1],  # type: ignore[index]
                "securityContext": EXPECTED_POD["containers"][0]["securityContext"],  # type: ignore[index]
                "volumeMounts": [
                    {"name": "config", "mountPath": "/flagperf/pod", "readOnly": True},
                    {"name": "work", "mountPath": "/work"},
                ],
            }
        ]
    )
    assert container_of(documents)["args"][7] == ""


def test_labels_and_annotations_of_the_site() -> None:
    pods = Kubernetes(labels={"queue": "bench", "flagperf.job": "other"}, annotations={"cni/networks": "rdma"})
    documents = made(pod_job(pods))
    assert all(document["metadata"]["labels"] == {"queue": "bench", **LABELS} for document in documents)
    metadata = {"labels": {"queue": "bench", **LABELS}, "annotations": {"cni/networks": "rdma"}}
    assert documents[-1]["spec"]["template"]["metadata"] == metadata


def test_a_job_in_a_queue_of_kueue() -> None:
    *others, job = made(pod_job(Kubernetes(queue="bench")))
    validate(job)
    queue = {"kueue.x-k8s.io/queue-name": "bench"}
    assert (job["metadata"]["labels"], job["spec"]["suspend"]) == (LABELS | queue, True)
    assert job["spec"]["template"]["metadata"]["labels"] == LABELS  # Kueue would queue each pod by itself
    assert [document["metadata"]["labels"] for document in others] == [LABELS] * len(others)


def test_a_job_set_starts_the_round_again_after_an_eviction() -> None:
    job = pod_job(Kubernetes(job_set=True, evictions=2, queue="bench"))
    *config_maps, job_set = made(job)
    assert [document["kind"] for document in config_maps] == [
        "ConfigMap",
        "ConfigMap",
    ]  # its controller makes a Service
    assert JobsetV1alpha2JobSet.from_dict(job_set).to_dict() == job_set
    (replicated,) = job_set["spec"].pop("replicatedJobs")
    assert job_set["spec"] == {
        "network": {"enableDNSHostnames": True, "subdomain": JOB, "publishNotReadyAddresses": True},
        "failurePolicy": {
            "maxRestarts": 2,
            "rules": [
                {"name": "evicted", "action": "RestartJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
                {"name": "failed", "action": "FailJobSet"},
            ],
        },
        "suspend": True,
    }
    assert (replicated["name"], replicated["replicas"]) == ("n", 1)
    spec = replicated["template"]["spec"]
    validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "n"}, "spec": spec})
    evicted = {"type": "DisruptionTarget", "status": "True"}
    assert spec.pop("podFailurePolicy") == {"rules": [{"action": "FailJob", "onPodConditions": [evicted]}]}
    text = json.dumps(made(pod_job())[-1]["spec"]).replace(f"{JOB}-0.{JOB}", f"{JOB}-n-0-0.{JOB}")
    assert spec == json.loads(text)


def test_a_reference_in_a_value_is_not_replaced_by_kubernetes() -> None:
    """What looks like a reference to another variable stays as it is written."""
    vendor_with_pattern = replace(GPU, environment={"PATTERN": "$(HOME)"})
    assert container_of(made(pod_job(vendor=vendor_with_pattern)))["env"][-2] == {
        "name": "PATTERN",
        "value": "$$(HOME)",
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a vendor of whom no resource is known": (
        {"vendor": replace(GPU, device_plugin=None)},
        lines(
            "flagperf does not know by which resource Kubernetes gives devices of vendor acme",
            where="config.yaml",
            key="cluster.kubernetes.device",
            allowed="the name that `kubectl describe node` shows below Capacity",
            do="cluster.kubernetes.device=NAME",
        ),
    ),
    "secrets without a Secret": (
        {"secrets": {"HF_TOKEN": HIDDEN, "KEY": HIDDEN}, "cluster": {"secrets": {"HF_TOKEN": Secret(variable="T")}}},
        lines(
            "manifests hold no secrets",
            where="config.yaml",
            key="cluster.kubernetes.secret",
            do="make a Secret with the keys HF_TOKEN, KEY (kubectl create secret generic), and name it here",
        ),
    ),
    "a field of the pods that is not free": (
        {"pods": Kubernetes(pod={"restartPolicy": "OnFailure"})},
        lines(
            "flagperf itself writes this field of a pod's spec",
            where="config.yaml",
            key="cluster.kubernetes.pod",
            given="restartPolicy",
            do="leave it out there",
        ),
    ),
    "a Job that an eviction would start again": (
        {"pods": Kubernetes(evictions=1)},
        lines(
            "only a JobSet starts a round again",
            where="config.yaml",
            key="cluster.kubernetes.evictions",
            given="1",
            do="cluster.kubernetes.job_set=true, or evictions=0",
        ),
    ),
    "a checkpoint to resume from": (
        {"resume": "/res/run0"},
        lines(
            "pods cannot resume a training",
            where="config.yaml",
            key="resume",
            given="/res/run0",
            do="start the case from its beginning",
        ),
    ),
    "a batch size that is to be found": (
        {"sized": lambda _: pod_job()},
        lines(
            "pods cannot search for a batch size",
            where="config.yaml",
            key="train_batch_size",
            given="auto",
            do="give the size that a run on one such host found",
        ),
    ),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(pod_job(**fields))
    assert str(caught.value) == message


def test_code_of_several_config_maps() -> None:
    """Each can be applied; the pod joins the parts in the order of their names."""
    code = bytes(range(256)) * (PART * 11 // 256)
    *parts, _, _, job = made(pod_job(), payload=Payload("", code))
    assert len(parts) == 11
    actual = {name: b64decode(text) for part in parts for name, text in part["binaryData"].items()}
    assert b"".join(actual[name] for name in sorted(actual)) == code
    assert all(len(json.dumps(part)) < ANNOTATION for part in parts)
    (volume,) = [item for item in job["spec"]["template"]["spec"]["volumes"] if item["name"] == "parts"]
    assert [item["configMap"]["name"] for item in volume["projected"]["sources"]] == [
        part["metadata"]["name"] for part in parts
    ]


def test_code_that_is_none() -> None:
    with pytest.raises(ConfigError, match="the code is too large for ConfigMaps"):
        made(pod_job(code_dir="/mine"), payload=Payload("", bytes(64 * PART + 1)))


DNS = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"  # of a Service, and with the number of its pod of a host name
LABEL = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"


@pytest.mark.parametrize(
    ("case", "folder", "owner"),
    [
        pytest.param("sums", "run20260101-120000", "me.login1", id="usual"),
        pytest.param("Vision_Transformer.v2", "a run, of mine", "me@corp.login.example.org", id="signs of all kinds"),
        pytest.param("x" * 99, "y" * 99, "z" * 99, id="long"),
        pytest.param("图", "图", "图", id="nothing that may stand there"),
    ],
)
@pytest.mark.parametrize("number", [1, 10000])
def test_names_and_labels_are_as_kubernetes_wants_them(case: str, folder: str, owner: str, number: int) -> None:
    job = example_job(case=case, cluster=PODS)
    object_name = job_name(job, number, Path("/res", folder), owner)
    assert re.fullmatch(DNS, f"{object_name}-n-0-65535")
    actual = labels(object_name, Path("/res", folder), owner)
    assert all(re.fullmatch(LABEL, value) for value in actual.values())
    assert actual["flagperf.job"] == object_name


def test_every_round_and_owner_has_names_of_its_own() -> None:
    job = pod_job()
    others = [(2, RUN, OWNER), (1, RUN.with_name("run2"), OWNER), (1, RUN, "you.login1")]
    assert len({job_name(job, 1, RUN, OWNER), *(job_name(job, *other) for other in others)}) == 4


@pytest.mark.parametrize("nnodes", [1, 2])
@pytest.mark.parametrize(("vendor", "hardware", "resource", "count"), DEVICES, ids=[item[1] for item in DEVICES])
def test_valid_against_the_published_schemas(
    vendor: str, hardware: str, resource: str, count: int, nnodes: int
) -> None:
    nproc = 6 if hardware == "Max1550" else 8
    words = [f"vendor={vendor}", f"hardware={hardware}", f"nnodes={nnodes}", f"nproc={nproc}", "cluster=kubernetes"]
    job = compose([*words, "data_dir=/data", "dry_run=true"])
    documents = made(job)
    for document in documents:
        validate(document)
    assert container_of(documents)["resources"] == {"limits": {resource: count}}
    assert build(Measured, yaml.safe_load(measured(job).text()), "", str) == measured(job)
    assert documents[-1]["spec"]["completions"] == nnodes


def test_the_text_is_the_objects() -> None:
    """One document an object, for kubectl and for people: what is said of the run stands in comments."""
    job = pod_job(notes=("tuning: none",), repeat=3)
    documents = made(job)
    there = on_pods(job, JOB)
    text = manifest_text(there, make_plan(there, 1, RUN), documents, JOB, RUN, RUN / "m.yaml")
    assert list(yaml.safe_load_all(text)) == documents
    assert text.startswith(
        f"""\
# sums-pytorch-cpux2x2, round 1 of 3, division closed: 2 pod(s)
#   tuning: none
#   each round has manifests of its own; seeds of the rounds: 7, 8, 9
#   no memory is asked for (cluster.kubernetes.resources): a node short of it evicts such pods first

# Changes against the case:
#   none

# What to do with it:
#   start it:       kubectl apply -f /res/run1/m.yaml
#   look at it:     kubectl get pods --namespace bench -l flagperf.job={JOB}
#   bring its logs: flagperf report /res/run1 collect=true    (of pods that have ended; it names the others)
#   remove it:      kubectl delete -f /res/run1/m.yaml    (and what was not collected)

---
{{"apiVersion": "v1", "kind": "ConfigMap", """
    )


def test_a_thousand_nodes_have_one_template() -> None:
    """Nothing of the manifests grows with the nodes but two numbers of the Job."""
    few, many = made(pod_job()), made(pod_job(nnodes=1000))
    assert many[-1]["spec"]["completions"] == many[-1]["spec"]["parallelism"] == 1000
    name = many[-1]["metadata"]["name"]
    assert len(json.dumps(many).replace(name, JOB)) - len(json.dumps(few)) < 40
