"""The plan, compared whole."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example import DEADLINES, HERE, example_job
from user_folder import write

from flagperf.config.compose import compose
from flagperf.config.schema.cluster import Cluster, Node, RendezvousSettings
from flagperf.config.schema.platform import ContainerOptions, Image, RuntimeSettings, Vendor
from flagperf.config.schema.values import JobConfig
from flagperf.contract.command import Command
from flagperf.errors import ConfigError
from flagperf.plan.dry_run import dry_run_text
from flagperf.plan.plan import make_plan, with_rendezvous
from flagperf.plan.values import NodePlan, Plan, Rendezvous

ALPHA, BETA = Node("alpha", "10.0.0.1"), Node("beta", "10.0.0.2", user="me")
LAB = Cluster("lab", "two hosts", (ALPHA, BETA), work_dir="/var/tmp/fp")
CASE = "sums-pytorch-cpux"


def words(*, nnodes: int, rank: int, to: str, config: str, python: str = "python3") -> tuple[str, ...]:
    start = (python, "--nnodes", str(nnodes), "--nproc", "2", "--rank", str(rank))
    return (*start, "--to", to, config)


def node(rank: int, where: Node, root: str, scale: str, launch: tuple[str, ...], **env: str) -> NodePlan:
    case = f"{root}{CASE}{scale}"
    logs = f"{case}/round1/{where.name}_noderank{rank}"
    command = Command(launch, {"FLAGPERF_LOG_DIR": logs, "PYTHONFAULTHANDLER": "1", **env})
    return NodePlan(rank, where, command, (2 * rank, 2 * rank + 1), case, logs, monitors=("cpu", "mem", "pwr", "host"))


HERE_ALONE = node(
    0, HERE, "", "1x2", words(nnodes=1, rank=0, to="127.0.0.1:29500", config=f"{CASE}1x2/round1/config.yaml")
)
IN_FOLDER = node(
    0,
    HERE,
    "/res/run1/",
    "1x2",
    words(nnodes=1, rank=0, to="127.0.0.1:29500", config=f"/res/run1/{CASE}1x2/round1/config.yaml"),
)
REMOTE = "/var/tmp/fp/run1/"
TWO_HOSTS = tuple(
    node(
        rank,
        where,
        REMOTE,
        "2x2",
        words(nnodes=2, rank=rank, to="10.0.0.1:29500", config=f"{REMOTE}{CASE}2x2/round1/config.yaml"),
        PYTHONPATH="/var/tmp/fp/run1/code",
    )
    for rank, where in enumerate((ALPHA, BETA))
)
MET = tuple(
    node(
        rank,
        where,
        REMOTE,
        "2x2",
        words(nnodes=2, rank=rank, to="10.0.0.9:4711", config=f"{REMOTE}{CASE}2x2/round1/config.yaml"),
        PYTHONPATH="/var/tmp/fp/run1/code",
        GLOO_SOCKET_IFNAME=f"eth{rank}",
    )
    for rank, where in enumerate((ALPHA, BETA))
)
RUN1 = Path("/res/run1")
FOUND = Rendezvous("10.0.0.9", 4711, ("eth0", "eth1"))


@pytest.mark.parametrize(
    ("run", "folder", "nodes", "address", "port"),
    [
        pytest.param({}, Path(), (HERE_ALONE,), "127.0.0.1", 29500, id="this machine, relative"),
        pytest.param({}, RUN1, (IN_FOLDER,), "127.0.0.1", 29500, id="this machine, in a run folder"),
        pytest.param({"nnodes": 2, "cluster": LAB}, RUN1, TWO_HOSTS, "10.0.0.1", 29500, id="two hosts"),
        pytest.param(
            {
                "nnodes": 2,
                "cluster": replace(LAB, rendezvous=RendezvousSettings("10.0.0.9", "eth0", 4711)),
            },
            RUN1,
            (
                MET[0],
                replace(
                    MET[1],
                    launch=replace(
                        MET[1].launch,
                        env=MET[1].launch.env | {"GLOO_SOCKET_IFNAME": "eth0"},
                    ),
                ),
            ),
            "10.0.0.9",
            4711,
            id="two hosts, as the cluster's file says",
        ),
    ],
)
def test_plan_is(run: dict[str, Any], folder: Path, nodes: tuple[NodePlan, ...], address: str, port: int) -> None:
    given = example_job(**run)
    expected = Plan("sums", "pytorch", 1, given.config, nodes, address, port, DEADLINES)
    assert make_plan(given, 1, folder) == expected


def test_what_the_hosts_tell_gives_a_new_plan() -> None:
    job = example_job(nnodes=2, cluster=LAB)
    plan = make_plan(job, 1, RUN1)
    met = with_rendezvous(plan, job, FOUND)
    assert met == replace(plan, nodes=MET, master_address="10.0.0.9", master_port=4711)
    assert plan.nodes == TWO_HOSTS
    assert with_rendezvous(met, job, Rendezvous("10.0.0.1", 29500, (None, None))) == plan


def test_a_container_has_the_new_launch_command_too() -> None:
    job = example_job(nnodes=2, cluster=LAB, container=ContainerOptions(), image=Image("img:1", "present"))
    plan = make_plan(job, 1, RUN1)
    for before, after in zip(plan.nodes, with_rendezvous(plan, job, FOUND).nodes, strict=True):
        assert before.container and after.container
        start = before.container.argv[: -len(before.launch.argv)]
        env = before.container.env | {"GLOO_SOCKET_IFNAME": f"eth{after.rank}"}
        assert after.container == replace(before.container, argv=(*start, *after.launch.argv), env=env)


@pytest.mark.parametrize(
    ("first", "address"),
    [
        pytest.param(HERE, "here", id="by its name, where the file has its loopback address"),
        pytest.param(replace(HERE, address="10.0.0.3"), "10.0.0.3", id="as the file says"),
    ],
)
def test_this_machine_among_others_is_met_where_they_reach_it(first: Node, address: str) -> None:
    cluster = replace(LAB, nodes=(first, ALPHA))
    assert make_plan(example_job(nnodes=2, cluster=cluster), 1).master_address == address


def test_local_ranks_use_the_interpreter_that_runs_flagperf() -> None:
    job = example_job(runtime=RuntimeSettings("process", "process"))
    assert make_plan(job, 1).nodes[0].launch.argv[0] == sys.executable


def test_a_vendor_with_a_monitor_and_variables_has_them_in_the_plan() -> None:
    vendor = Vendor("acme", "Acme", "npu", "hccl", None, None, environment={"ACME": "1"}, monitor={"source": "smi"})  # type: ignore[arg-type]
    plan = make_plan(example_job(vendor=vendor), 1).nodes[0]
    assert plan.monitors == ("cpu", "mem", "pwr", "host", "acme")
    assert plan.launch.env["ACME"] == "1"


@pytest.mark.parametrize("image", [None, Image("img:1", "present")], ids=["process", "docker"])
def test_secrets_are_read_from_a_file_and_stand_in_no_plan(image: Image | None) -> None:
    job = example_job(
        nnodes=2,
        cluster=LAB,
        image=image,
        container=image and ContainerOptions(),
        secrets={"HF_TOKEN": "my-secret", "B": "its"},
    )
    plan = make_plan(job, 1, RUN1)
    assert "my-secret" not in f"{plan}{dry_run_text(job)}"
    for rank, node in enumerate(plan.nodes):
        file = f"{REMOTE}{CASE}2x2/round1/.secrets-node{rank}"
        read = ("sh", "-c", '. "$0" && { rm -f "$0"; exec "$@"; }', file)
        assert (node.secrets, node.secrets_file) == (("HF_TOKEN", "B"), file)
        listed = ("/bin/sh", file.replace(f".secrets-node{rank}", "environment.sh"))
        assert node.start == replace(node.launch, argv=(*read, *listed, *node.launch.argv))
        if node.container:
            assert node.container.argv[-len(node.start.argv) :] == node.start.argv
            assert not {"HF_TOKEN", "B"} & {*node.container.env}


def interfaces(job: JobConfig) -> dict[str, str]:
    """The variables of node 1 that name a network interface."""
    env = with_rendezvous(make_plan(job, 1), job, FOUND).nodes[1].launch.env
    return {name: value for name, value in env.items() if name.endswith("_IFNAME")}


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        pytest.param({}, {"GLOO_SOCKET_IFNAME": "eth1", "ACCL_SOCKET_IFNAME": "eth1"}, id="gloo's and the vendor's"),
        pytest.param(
            {"ACCL_SOCKET_IFNAME": "=ib0"},
            {"GLOO_SOCKET_IFNAME": "eth1", "ACCL_SOCKET_IFNAME": "=ib0"},
            id="the user's own stays",
        ),
        pytest.param(
            {"GLOO_SOCKET_IFNAME": "ib0", "NCCL_SOCKET_IFNAME": "ib1"},
            {"GLOO_SOCKET_IFNAME": "ib0", "NCCL_SOCKET_IFNAME": "ib1", "ACCL_SOCKET_IFNAME": "eth1"},
            id="gloo's own too",
        ),
    ],
)
def test_interface_variables(configured: dict[str, str], expected: dict[str, str]) -> None:
    vendor = Vendor(
        "acme", "Acme", "acl", "accl", None, None, interface_variables=("ACCL_SOCKET_IFNAME",), environment=configured
    )
    assert interfaces(example_job(nnodes=2, cluster=LAB, vendor=vendor)) == expected


@pytest.mark.parametrize(
    ("config", "vendor_variables", "expected"),
    [
        pytest.param({"deterministic": False}, {}, None, id="not deterministic"),
        pytest.param({"deterministic": True}, {}, ":4096:8", id="deterministic"),
        pytest.param({"deterministic": True}, {"WORKSPACE": ":16:8"}, ":16:8", id="the user's own"),
    ],
)
def test_variables_of_deterministic_runs(
    config: dict[str, bool], vendor_variables: dict[str, str], expected: str | None
) -> None:
    variables = {"environment": vendor_variables, "deterministic_environment": {"WORKSPACE": ":4096:8"}}
    vendor = Vendor("acme", "Acme", "npu", "hccl", None, None, **variables)  # type: ignore[arg-type]
    assert make_plan(example_job(vendor=vendor, config=config), 1).nodes[0].launch.env.get("WORKSPACE") == expected


TUNING = """\
# @package _global_
vendor:
  environment: {ACME_FORMAT: bf16 int8}
  image: {pytorch: IMAGE}
"""


def tuned(folder: Path, image: str) -> JobConfig:
    """ResNet-50 on two A100, whose image flagperf builds, with a tuning of the user's own."""
    write(folder, {"vendor/nvidia/resnet50/A100x1x2": TUNING.replace("IMAGE", image)})
    words = ["model=resnet50", "vendor=nvidia", "hardware=A100", "nproc=2", "data_dir=/data", "dry_run=true"]
    return compose(words, [folder])


def test_a_tuning_sets_variables_in_the_container_and_packages_in_the_image(tmp_path: Path) -> None:
    plain, more = tuned(tmp_path, "{}"), tuned(tmp_path, "{requirements: [my-kernels==1.2]}")
    for job in (plain, more):
        container = make_plan(job, 1).nodes[0].container
        assert container and job.image
        assert (container.env["ACME_FORMAT"], container.image) == ("bf16 int8", job.image.reference)
        assert "'--env=ACME_FORMAT=bf16 int8'" in dry_run_text(job)
    name, tag = plain.image.reference.split(":")  # type: ignore[union-attr]
    other_name, other_tag = more.image.reference.split(":")  # type: ignore[union-attr]
    assert (name, len(tag), len(other_tag), tag == other_tag) == (other_name, 12, 12, False)
    assert {change.source for change in more.changes} == {"tuning nvidia/resnet50/A100x1x2"}


def test_a_tuning_adds_no_packages_to_a_ready_image(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        tuned(tmp_path, "{name: 'ready:1', requirements: [my-kernels==1.2]}")
    assert str(caught.value) == (
        "image ready:1 is used as it is, so no packages can be added\n"
        f"  where:   {tmp_path}/vendor/nvidia/resnet50/A100x1x2.yaml\n"
        "  key:     vendor.image.pytorch.requirements\n"
        "  given:   my-kernels==1.2\n"
        "  do:      take an image that has them, or build on it: "
        "vendor.image.pytorch.base=ready:1"
    )


def test_a_folder_builds_on_a_ready_image(tmp_path: Path) -> None:
    image = f"{{name: 'ready:1', base: 'ready:1', folder: {tmp_path}, requirements: [my-kernels==1.2]}}"
    with pytest.raises(ConfigError) as caught:
        tuned(tmp_path, image)
    assert str(caught.value) == (
        "there is no Dockerfile to build from\n"
        f"  where:   {tmp_path}/vendor/nvidia/resnet50/A100x1x2.yaml\n"
        "  key:     vendor.image.pytorch.folder\n"
        f"  given:   {tmp_path}"
    )
    (tmp_path / "Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n")
    built = tuned(tmp_path, image).image
    assert built and (built.policy, built.source.base) == ("build", "ready:1")
    assert built.reference.startswith("flagperf-nvidia-pytorch:")


@pytest.mark.parametrize(("repeat_seed", "seeds"), [("own", [7, 8]), ("same", [7, 7])])
def test_the_seed_of_each_round(repeat_seed: str, seeds: list[int]) -> None:
    """That the same seed gives the same training: tests/trainer/pytorch/test_loop.py."""
    job = example_job(config={"repeat_seed": repeat_seed})
    assert [make_plan(job, number, Path("/r")).config["seed"] for number in (1, 2)] == seeds


def test_checkpoints_are_resumed_where_they_are_sent_to() -> None:
    job = example_job(config={"resume": "/res/run0/checkpoint"})
    assert make_plan(job, 1, RUN1).config["resume"] == "/res/run0/checkpoint"
    remote = example_job(config={"resume": "/res/run0/checkpoint"}, nnodes=2, cluster=LAB)
    assert make_plan(remote, 1, RUN1).config["resume"] == "/var/tmp/fp/run1/resume"
    assert make_plan(remote, 1, RUN1, on_hosts="run1-ab").config["resume"] == "/var/tmp/fp/run1-ab/resume"


def test_a_run_has_another_name_on_other_hosts_only() -> None:
    job = example_job(nnodes=2, cluster=replace(LAB, nodes=(HERE, BETA)))
    nodes = make_plan(job, 1, RUN1, on_hosts="run1-ab").nodes
    name = job.name
    assert [node.case_dir for node in nodes] == [f"{RUN1}/{name}", f"/var/tmp/fp/run1-ab/{name}"]


def test_too_few_hosts_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan(example_job(nnodes=2), 1)
    assert str(caught.value) == (
        "the cluster has too few hosts for nnodes=2\n"
        "  where:   cluster local\n"
        "  key:     nnodes\n"
        "  given:   2\n"
        "  allowed: 1 to 1\n"
        "  do:      choose a larger cluster (cluster=NAME), or see the plan with dry_run=true"
    )


def test_a_thousand_nodes_are_planned_within_a_second() -> None:
    hosts = tuple(Node(f"host{number}", f"10.0.{number // 256}.{number % 256}") for number in range(1000))
    job = example_job(nnodes=1000, cluster=Cluster("large", "many", hosts))
    began = time.process_time()
    assert len(make_plan(job, 1).nodes) == 1000
    assert time.process_time() - began < 1.0
