"""A container as a value, as a command line and as a call of the docker SDK."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import PurePosixPath
from typing import Any

import pytest
from docker.types import DeviceRequest, Ulimit
from docker.types import Mount as SdkMount
from example import example_job

from flagperf.config.parts.data_layout import sample_folder
from flagperf.config.parts.platform import merged
from flagperf.config.schema.cluster import Node
from flagperf.config.schema.platform import ContainerOptions, Image
from flagperf.contract.command import Command
from flagperf.plan.container import (
    STAND_IN_OWNER,
    Paths,
    docker_run_argv,
    make_container,
    option_mounts,
    owned,
    sdk_arguments,
    size_in_bytes,
)
from flagperf.plan.values import Container, Mount

PLAIN = Container("c1", "img:1", ("python3", "-m", "x"), {}, {}, (), ContainerOptions())
STRANGE = "a b'\"$(id)`\n,é="


def words(options: ContainerOptions) -> list[str]:
    """Options of the command line."""
    start, end = ("docker", "run", "--name", "c1"), ("img:1", "python3", "-m", "x")
    line = docker_run_argv(Container("c1", "img:1", end[1:], {}, {}, (), options))
    assert (line[:4], line[-4:]) == (start, end)
    return list(line[4:-4])


def arguments(options: ContainerOptions) -> dict[str, Any]:
    """Options of the SDK call."""
    actual = sdk_arguments(Container("c1", "img:1", ("python3", "-m", "x"), {}, {}, (), options))
    for name, value in {"name": "c1", "image": "img:1", "command": ["python3", "-m", "x"]}.items():
        assert actual.pop(name) == value
    return {name: value for name, value in actual.items() if value not in ({}, [])}


@pytest.mark.parametrize(
    ("options", "line", "call"),
    [
        pytest.param({}, [], {}, id="none"),
        pytest.param({"network": "host"}, ["--network=host"], {"network_mode": "host"}, id="network"),
        pytest.param({"ipc": "host"}, ["--ipc=host"], {"ipc_mode": "host"}, id="ipc"),
        pytest.param({"pid": "host"}, ["--pid=host"], {"pid_mode": "host"}, id="pid"),
        pytest.param({"uts": "host"}, ["--uts=host"], {"uts_mode": "host"}, id="uts"),
        pytest.param({"init": True}, ["--init"], {"init": True}, id="init"),
        pytest.param({"init": False}, [], {}, id="no init"),
        pytest.param({"shm_size": "32g"}, ["--shm-size=32g"], {"shm_size": 32 * 1024**3}, id="shm"),
        pytest.param({"memory": "512m"}, ["--memory=512m"], {"mem_limit": 512 * 1024**2}, id="memory"),
        pytest.param({"cpus": 1.5}, ["--cpus=1.5"], {"nano_cpus": 1_500_000_000}, id="cpus"),
        pytest.param({"privileged": True}, ["--privileged"], {"privileged": True}, id="privileged"),
        pytest.param({"user": "1000:1000"}, ["--user=1000:1000"], {"user": "1000:1000"}, id="user"),
        pytest.param({"runtime": "ascend"}, ["--runtime=ascend"], {"runtime": "ascend"}, id="runtime"),
        pytest.param(
            {"gpus": "all"},
            ["--gpus=all"],
            {"device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])]},
            id="all GPUs",
        ),
        pytest.param(
            {"gpus": "2"},
            ["--gpus=2"],
            {"device_requests": [DeviceRequest(count=2, capabilities=[["gpu"]])]},
            id="two GPUs",
        ),
        pytest.param(
            {"gpus": "device=0,3"},
            ['--gpus="device=0,3"'],
            {"device_requests": [DeviceRequest(device_ids=["0", "3"], capabilities=[["gpu"]])]},
            id="named GPUs",
        ),
        pytest.param(
            {"devices": ("/dev/davinci0", "/dev/a:/dev/b", "/dev/a:/dev/b:r")},
            ["--device=/dev/davinci0", "--device=/dev/a:/dev/b", "--device=/dev/a:/dev/b:r"],
            {"devices": ["/dev/davinci0:/dev/davinci0:rwm", "/dev/a:/dev/b:rwm", "/dev/a:/dev/b:r"]},
            id="devices",
        ),
        pytest.param(
            {"cap_add": ("SYS_ADMIN",), "security_opt": ("seccomp=unconfined",), "group_add": ("video",)},
            ["--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--group-add=video"],
            {"cap_add": ["SYS_ADMIN"], "security_opt": ["seccomp=unconfined"], "group_add": ["video"]},
            id="rights",
        ),
        pytest.param(
            {"ulimits": {"memlock": -1, "stack": None, "nofile": 4096}},
            ["--ulimit=memlock=-1", "--ulimit=nofile=4096"],
            {
                "ulimits": [
                    Ulimit(name="memlock", soft=-1, hard=-1),
                    Ulimit(name="nofile", soft=4096, hard=4096),
                ]
            },
            id="ulimits",
        ),
    ],
)
def test_each_option_in_both_forms(options: dict[str, Any], line: list[str], call: dict[str, Any]) -> None:
    assert (words(ContainerOptions(**options)), arguments(ContainerOptions(**options))) == (line, call)


def test_environment_labels_and_mounts_in_both_forms() -> None:
    mounts = (Mount("/data", "/d"), Mount("/logs", "/logs", read_only=False), Mount('/a,"b', "/x y"))
    container = Container("c1", "img", ("x", STRANGE), {"A": STRANGE}, {"l": "1"}, mounts, ContainerOptions())
    assert docker_run_argv(container)[4:] == (
        "--label=l=1",
        "--mount=type=bind,source=/data,target=/d,readonly",
        "--mount=type=bind,source=/logs,target=/logs",
        '--mount=type=bind,"source=/a,""b",target=/x y,readonly',
        f"--env=A={STRANGE}",
        "img",
        "x",
        STRANGE,
    )
    actual = sdk_arguments(container)
    assert (actual["labels"], actual["environment"], actual["command"]) == ({"l": "1"}, {"A": STRANGE}, ["x", STRANGE])
    assert actual["mounts"] == [
        SdkMount("/d", "/data", type="bind", read_only=True),
        SdkMount("/logs", "/logs", type="bind", read_only=False),
        SdkMount("/x y", '/a,"b', type="bind", read_only=True),
    ]
    assert shlex.split(shlex.join(docker_run_argv(container))) == list(docker_run_argv(container))


def test_options_of_runtime_vendor_and_cluster_become_one() -> None:
    runtime = ContainerOptions(network="host", shm_size="32g", ulimits={"memlock": -1, "stack": 1}, devices=("/dev/a",))
    vendor = ContainerOptions(privileged=True, devices=("/dev/b", "/dev/a"), mounts={"/usr/local/driver": "/driver"})
    cluster = ContainerOptions(shm_size="1g", ulimits={"memlock": None}, mounts={"/scratch": "/scratch:rw"})
    together = merged(runtime, vendor, cluster)
    assert together == ContainerOptions(
        network="host",
        shm_size="1g",
        privileged=True,
        ulimits={"memlock": None, "stack": 1},
        devices=("/dev/a", "/dev/b"),
        mounts={"/usr/local/driver": "/driver", "/scratch": "/scratch:rw"},
    )
    assert option_mounts(together) == (
        Mount("/usr/local/driver", "/driver"),
        Mount("/scratch", "/scratch", read_only=False),
    )


SAMPLE = {"sample_dir": "/home/me/sample", "data": {"sample": {"_target_": "x"}}}


@pytest.mark.parametrize(
    ("config", "node", "mounts"),
    [
        pytest.param({}, Node("h", "1.2.3.4"), [Mount("/data", "/data")], id="the same place on all hosts"),
        pytest.param(
            {}, Node("h", "1.2.3.4", data_dir="/mnt/ssd"), [Mount("/mnt/ssd", "/data")], id="a root of its own"
        ),
        pytest.param(
            {"init_checkpoint": "/weights/a.pt"},
            Node("h", "1.2.3.4"),
            [Mount("/data", "/data"), Mount("/weights/a.pt", "/weights/a.pt")],
            id="weights elsewhere",
        ),
        pytest.param(
            {"init_checkpoint": "/data/a.pt"}, Node("h", "1.2.3.4"), [Mount("/data", "/data")], id="weights in the data"
        ),
        pytest.param(
            {"resume": "/res/run0/c"},
            Node("h", "1.2.3.4", local=True),
            [Mount("/data", "/data"), Mount("/res/run0/c", "/res/run0/c")],
            id="resumed here",
        ),
        pytest.param(
            {"resume": "/res/run0/c"}, Node("h", "1.2.3.4"), [Mount("/data", "/data")], id="resumed elsewhere"
        ),
    ],
)
def test_the_container_of_a_node(config: dict[str, Any], node: Node, mounts: list[Mount]) -> None:
    options = ContainerOptions(network="host", mounts={"/driver": "/driver"})
    job = example_job(config=config, container=options, image=Image("img:1", "present"))
    root = PurePosixPath("/w/run1")
    paths = Paths(root, root / "case/round1", root / "case/round1/h_noderank0")
    container = make_container(job, node, 0, paths, Command(("torchrun", "x"), {"A": "1"}))
    log = "/w/run1/case/round1/h_noderank0/start_pytorch_task.log"
    assert container == Container(
        name="flagperf-d76355d9-round1-node0",
        image="img:1",
        argv=("sh", "-c", 'exec "$@" >>"$0" 2>&1', log, "torchrun", "x"),
        env={"A": "1", "FLAGPERF_CONTAINER": "flagperf-d76355d9-round1-node0"},
        labels={"flagperf.run": "run1", "flagperf.node": "0", "flagperf.owner": STAND_IN_OWNER},
        mounts=(
            Mount("/driver", "/driver"),
            Mount("/w/run1", "/w/run1"),
            Mount("/w/run1/case/round1", "/w/run1/case/round1", read_only=False),
            *mounts,
        ),
        options=options,
    )


def test_sample_data_is_kept_on_the_host_and_may_be_written() -> None:
    folder = sample_folder("/home/me/sample", "sums", {"_target_": "x"})
    config = {**SAMPLE, "data_dir": str(folder)}
    job = example_job(config=config, container=ContainerOptions(), image=Image("img:1", "present"))
    paths = Paths(PurePosixPath("/w/r"), PurePosixPath("/w/r/round1"), PurePosixPath("/w/r/round1/h"))
    actual = make_container(job, Node("h", "1.2.3.4"), 0, paths, Command(("x",)))
    assert actual is not None
    assert actual.mounts[-1] == Mount(f"{job.cluster.work_dir}/sample", "/home/me/sample", read_only=False)


@pytest.mark.parametrize(("ipc", "size"), [("host", None), ("private", "32g")])
def test_the_shared_memory_of_the_host_has_its_own_size(ipc: str, size: str | None) -> None:
    """Podman refuses a size."""
    options = ContainerOptions(ipc=ipc, shm_size="32g")
    job = example_job(container=options, image=Image("img:1", "present"))
    paths = Paths(PurePosixPath("/w/r"), PurePosixPath("/w/r/round1"), PurePosixPath("/w/r/round1/h"))
    container = make_container(job, Node("h", "1.2.3.4"), 0, paths, Command(("x",)))
    assert container is not None
    assert (container.options.ipc, container.options.shm_size) == (ipc, size)


def test_a_process_runtime_has_no_container() -> None:
    paths = Paths(PurePosixPath("/w/r"), PurePosixPath("/w/r/round1"), PurePosixPath("/w/r/round1/h"))
    assert make_container(example_job(), Node("h", "1.2.3.4"), 0, paths, Command(("x",))) is None


def test_the_label_of_the_launcher_is_the_same_in_both_forms() -> None:
    label = {"flagperf.owner": "host boot 7 9"}
    container = owned(dataclasses.replace(PLAIN, labels={"flagperf.owner": STAND_IN_OWNER}), label["flagperf.owner"])
    assert container == dataclasses.replace(PLAIN, labels=label)
    assert docker_run_argv(container)[4:5] == ("--label=flagperf.owner=host boot 7 9",)
    assert sdk_arguments(container)["labels"] == label


@pytest.mark.parametrize(
    ("text", "size"), [("64", 64), ("8b", 8), ("1k", 1024), ("2MB", 2 * 1024**2), ("1.5g", 3 * 2**29)]
)
def test_sizes(text: str, size: int) -> None:
    assert size_in_bytes(text) == size
