"""flagperf on two hosts: real trainings to their target, rounds and sweeps, and every place a user can name."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from example import example_job
from flagperf_run import DOCKER, FAKE, OPEN, WORKLOAD, User, assert_nothing_left, cluster_file, word
from hosts import TestCluster
from PIL import Image

from flagperf.contract.perflog import parse
from flagperf.contract.regular import read_yaml
from flagperf.hosts.payload import code_archive
from flagperf.plan.environment import environment_script
from flagperf.run.node_logs import LEFT_OUT

PROCESS = ("runtime=process", f"runtime.python={sys.executable}")
NAME = "resnet50-pytorch-cpux2x1"
MONITORS = ("cpu", "host", "mem", "pwr")
NODE_LOGS = {*(f"{name}_monitor.log" for name in MONITORS), "start_pytorch_task.log", "sys_info.log"}
STRANGE = "a b'c\"d$(touch hacked)`e`ü漢\\g\nf"


def node_files(folder: Path) -> dict[str, set[str]]:
    return {node.name: {path.name for path in node.iterdir()} for node in folder.iterdir() if node.is_dir()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "nproc", "runtime"),
    [
        pytest.param("glm", 1, DOCKER, id="glm 2x1 in containers"),
        pytest.param("resnet50", 2, PROCESS, id="resnet50 2x2 without docker"),
    ],
)
def test_a_real_training(lab: TestCluster, tmp_path: Path, model: str, nproc: int, runtime: tuple[str, ...]) -> None:
    words = (f"model={model}", "size=tiny", "nnodes=2", f"nproc={nproc}", "num_workers=0", "max_steps=3")
    done = User(lab, tmp_path).run(*runtime, *words)
    assert done.exit_code == 0, done.output
    name = f"{model}-pytorch-cpux2x{nproc}"
    result = done.result(name)
    assert (result["verdict"], result["target_reached"], result["sample_data"]) == ("VALID", None, True)
    ranks = [f"rank{rank}.out.log" for rank in range(2 * nproc)]
    files = node_files(done.folder / name / "round1")
    assert files == {
        "h1_noderank0": NODE_LOGS | set(ranks[:nproc]),
        "h2_noderank1": NODE_LOGS | set(ranks[nproc:]),
    }
    assert " ".join(result["phases"]["h2_noderank1"]) == (
        "compose connect check image send start launch imports rendezvous init first_step stop collect clean"
    )
    about = (done.folder / name / "round1/h2_noderank1/sys_info.log").read_text()
    assert ("\nimage_id: sha256:" if runtime == DOCKER else "\ntorch: ") in about
    for host in lab.hosts:
        assert host.run("ls", "/srv/flagperf").stdout.split() in (["sample"], [])
        assert host.output("docker", "ps", "-aq") == ""


MORE = {"cap_add": ["SYS_PTRACE"], "security_opt": ["no-new-privileges=false", "seccomp=unconfined"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "rights"),
    [
        pytest.param({}, "CapEff=b NoNewPrivs=1 Seccomp=2", id="by default"),
        pytest.param(MORE, "CapEff=8000b NoNewPrivs=0 Seccomp=0", id="what a vendor or cluster adds"),
    ],
)
def test_the_rights_of_a_container(lab: TestCluster, tmp_path: Path, options: dict[str, object], rights: str) -> None:
    user = User(lab, tmp_path, steps=True, container={**cluster_file(lab)["container"], **options})
    done = user.run(*FAKE, *DOCKER, "nnodes=1", "max_steps=1", scenario="rights")
    assert done.exit_code == 0, done.output
    (log,) = done.folder.glob("*/round1/*/start_pytorch_task.log")
    assert rights in log.read_text()


@pytest.mark.slow
def test_a_host_with_the_launchers_files_keeps_them(lab: TestCluster, tmp_path: Path) -> None:
    """Nothing is sent onto itself, also where the host has the data at another path."""
    nodes = cluster_file(lab)["nodes"]
    nodes[1] |= {"shared": True, "data_dir": "/srv/fast"}
    user = User(lab, lab.root / tmp_path.name, steps=True, nodes=nodes)  # hosts have an own /tmp, not an own /var/lib
    for host, data in zip(lab.hosts, ("/srv/data", "/srv/fast"), strict=True):
        host.output("mkdir", "-p", f"{data}/train/a", f"{data}/val/a")
        host.output("touch", f"{data}/train/a/1.jpg", f"{data}/val/a/1.jpg")
    words = (*FAKE, *PROCESS, "nnodes=2", "max_steps=1", "data_dir=/srv/data")
    done = user.run(*words, scenario="look")
    assert done.exit_code == 0, done.output
    folder = done.folder / NAME / "round1"
    found = {path.parent.name: read_yaml(path)["data_dir"] for path in folder.rglob("config.yaml")}
    assert found == {"round1": "/srv/data", "h2_noderank1": "/srv/fast"}
    assert (folder / "environment.sh").read_text() == (folder / "h2_noderank1/environment.sh").read_text() != ""
    assert {path.name for path in folder.glob("*/rank*.out.log")} == {"rank0.out.log", "rank1.out.log"}
    elsewhere = User(lab, tmp_path, steps=True, nodes=nodes).run(*words)
    assert elsewhere.exit_code == 3
    assert "h2: it has other files than this machine: " in elsewhere.output
    assert lab.hosts[1].run("ls", str(tmp_path)).returncode != 0
    assert_nothing_left(lab)


@pytest.mark.slow
def test_a_run_is_resumed_from_checkpoints_that_came_from_the_hosts(lab: TestCluster, tmp_path: Path) -> None:
    words = ("model=glm", "size=tiny", "nnodes=2", "num_workers=0", "log_freq=1")
    user = User(lab, tmp_path)
    first = user.run(*DOCKER, *words, "max_steps=6", "checkpoint_freq=4", run_name="first")
    assert first.exit_code == 0, first.output
    again = user.run(*DOCKER, *words, "max_steps=6", f"resume={first.folder}", run_name="again")
    assert again.exit_code == 0, again.output
    assert again.result("glm-pytorch-cpux2x1")["values"]["resumed_from_step"] == 4
    assert losses(again.folder) == losses(first.folder)[4:]


def losses(folder: Path) -> list[float]:
    (log,) = folder.glob("*/round1/h1_noderank0/rank0.out.log")
    events = [event for line in log.read_text().splitlines() if (event := parse(line))]
    return [event.value["loss"] for event in events if event.event == "STEP_END"]


@pytest.mark.slow
def test_rounds_of_a_sweep(lab: TestCluster, tmp_path: Path) -> None:
    """Every round knows the versions in the image, which is asked once on each host."""
    began = str(time.time())
    words = ("nnodes=2", "repeat=2", "max_steps=2", "train_batch_size=8,16", "-m")
    done = User(lab, tmp_path, steps=True).run(*FAKE, *DOCKER, *words)
    assert done.exit_code == 0, done.output
    found = sorted(str(path.parent.relative_to(done.folder)) for path in done.folder.glob("*/round*/result.json"))
    jobs = [f"resnet50-pytorch-cpux2x1,train_batch_size={size}" for size in (16, 8)]
    assert found == [f"{job}/round{number}" for job in jobs for number in (1, 2)]
    assert all("\ntorch: " in path.read_text() for path in done.folder.glob("*/round*/*/sys_info.log"))
    for host in lab.hosts:
        events = ("--since", began, "--until", str(time.time()), "--filter", "event=create")
        made = host.output("docker", "events", *events, "--format", "{{.Actor.Attributes.name}}").split()
        assert [name.startswith("flagperf-once-") for name in made] == [True] + [False] * len(found), made


@pytest.mark.slow
@pytest.mark.parametrize(
    "runtime",
    [pytest.param(DOCKER, id="docker"), pytest.param((*PROCESS, OPEN), id="process")],
)
def test_strange_characters_in_every_name_and_data_elsewhere_on_one_host(
    lab: TestCluster, tmp_path: Path, runtime: tuple[str, ...]
) -> None:
    place = f"/srv/{STRANGE}"
    user = User(lab, tmp_path / STRANGE, steps=True, work_dir=f"{place}/work")
    cluster = user.read("cluster/lab")
    cluster["nodes"][1]["data_dir"] = f"{place}/fast"
    cluster["container"]["mounts"][f"{place}/more"] = f"{place}/inside"
    user.write("cluster/lab", cluster)
    shutil.copytree(WORKLOAD, tmp_path / STRANGE / "code")
    for host, data in zip(lab.hosts, (f"{place}/data", f"{place}/fast"), strict=True):
        host.output("mkdir", "-p", f"{data}/train/a", f"{data}/val/class b", f"{place}/more")
        host.output("touch", f"{data}/val/class b/1.jpg")
        host.output("sh", "-c", 'echo "of $1" >"$2"', "-", host.name, f"{data}/train/a/1.jpg")
    words = (
        *("model=resnet50", "size=tiny", "nnodes=2", "max_steps=1", f"data_dir={word(f'{place}/data')}"),
        *(f"code_dir={word(tmp_path / STRANGE / 'code')}", f"+vendor.environment.MINE={word(STRANGE)}"),
    )
    done = user.run(*runtime, *words, run_name=STRANGE, scenario="look")
    assert done.exit_code == 0, done.output
    assert {path.name for path in done.folder.glob("*/round1/*/rank*.out.log")} == {"rank0.out.log", "rank1.out.log"}
    for node, log in enumerate(sorted((done.folder / NAME / "round1").glob("*/start_pytorch_task.log")), 1):
        told = [line for line in log.read_text().splitlines(keepends=True) if not line.startswith(LEFT_OUT)]
        assert "".join(told) == f"MINE={STRANGE}\nof h{node}\n\n"
    assert [host.run("sh", "-c", "find / -xdev -name hacked 2>/dev/null").stdout for host in lab.hosts] == ["", ""]
    assert not Path("hacked").exists()


def test_data_missing_on_one_host(lab: TestCluster, tmp_path: Path) -> None:
    lab.hosts[0].output("mkdir", "-p", "/srv/data/train/a", "/srv/data/val/a")
    lab.hosts[0].output("touch", "/srv/data/train/a/1.jpg", "/srv/data/val/a/1.jpg")
    done = User(lab, tmp_path, steps=True).run(*FAKE, *DOCKER, "nnodes=2", "data_dir=/srv/data")
    assert done.exit_code == 2
    assert "host h2" in done.output and "/srv/data" in done.output and "train/<class>" in done.output, done.output
    assert_nothing_left(lab)


def fewer_images(folder: Path) -> None:
    (folder / "train/b/3.jpg").unlink()


def fewer_classes(folder: Path) -> None:
    for split in ("train", "val"):
        shutil.rmtree(folder / split / "b")


LACKING = {
    "images": (fewer_images, "training samples: 8 on h1 (rank 0), 7 on h2 (rank 1); names and sizes of files: "),
    "a class": (
        fewer_classes,
        "training samples: 8 on h1 (rank 0), 4 on h2 (rank 1); evaluation samples: 8 on h1 (rank 0), 4 on h2 (rank 1); "
        "classes: 2 on h1 (rank 0), 1 on h2 (rank 1); names of the classes: ",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lack", "given"),
    [pytest.param(*of, id=name) for name, of in LACKING.items()],
)
def test_data_that_differs_between_hosts(
    lab: TestCluster, tmp_path: Path, lack: Callable[[Path], None], given: str
) -> None:
    for host in lab.hosts:
        for split, name, number in itertools.product(("train", "val"), "ab", range(4)):
            path = host.root / "srv/data" / split / name / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40, 40), (number, 0, 0)).save(path)
    lack(lab.hosts[1].root / "srv/data")
    words = ("model=resnet50", "size=tiny", "nnodes=2", "num_workers=0", "train_batch_size=2", "data_dir=/srv/data")
    done = User(lab, tmp_path).run(*DOCKER, *words)
    assert done.exit_code == 2
    assert "the data differs between the ranks, during " in done.output, done.output
    assert f"given:   {given}" in done.output, done.output
    assert_nothing_left(lab)


@pytest.mark.slow
def test_a_dry_run_shows_docker_lines_that_work_when_pasted(lab: TestCluster, tmp_path: Path) -> None:
    user = User(lab, tmp_path, steps=True)
    done = user.run(*FAKE, *DOCKER, "nnodes=2", "max_steps=1", "dry_run=true")
    assert done.exit_code == 0, done.output
    first, _ = (line for line in done.output.splitlines() if line.startswith("docker run "))
    host, folder = lab.hosts[0], "/srv/flagperf/run"
    host.output("mkdir", "-p", log := f"{folder}/{NAME}/round1/h1_noderank0", f"{folder}/code", "/srv/flagperf/sample")
    config = done.output.partition("# Effective configuration")[2].partition("\n")[2].partition("\n\n# Node")[0]
    host.output("sh", "-c", f"cat >{folder}/{NAME}/round1/config.yaml", stdin=config.encode())
    script = environment_script(example_job())
    host.output("sh", "-c", f"cat >{folder}/{NAME}/round1/environment.sh", stdin=script.encode())
    host.output("tar", "-xzC", f"{folder}/code", stdin=code_archive((WORKLOAD,)))
    pasted = host.run("sh", "-c", first)
    assert pasted.returncode == 0, host.output("cat", f"{log}/start_pytorch_task.log")
    assert '"FINISHED"' in host.output("cat", f"{log}/rank0.out.log")


@pytest.fixture
def only_ipv6(lab: TestCluster) -> Iterator[list[str]]:
    """The addresses of the hosts, which have no others."""
    addresses = {host: f"fd00:231::{number}" for number, host in enumerate(lab.hosts, 1)}
    subprocess.run(["ip", "addr", "add", "fd00:231::f/64", "dev", lab.bridge, "nodad"], check=True)
    for host, address in addresses.items():
        host.output("ip", "addr", "flush", "dev", "eth0")
        host.output("ip", "addr", "add", f"{address}/64", "dev", "eth0", "nodad")
    known = "".join(f"{address} {host.host_key}\n" for host, address in addresses.items())
    lab.known_hosts.write_text(known)
    yield list(addresses.values())
    subprocess.run(["ip", "addr", "del", "fd00:231::f/64", "dev", lab.bridge], check=True)
    for host in lab.hosts:
        host.output("ip", "addr", "flush", "dev", "eth0")
        host.output("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
    lab.write_known_hosts()


@pytest.mark.slow
def test_hosts_that_have_only_ipv6(lab: TestCluster, tmp_path: Path, only_ipv6: list[str]) -> None:
    pairs = zip(lab.hosts, only_ipv6, strict=True)
    nodes = [{"name": host.name, "address": address, "user": "root"} for host, address in pairs]
    words = ("model=resnet50", "size=tiny", "nnodes=2", "num_workers=0", "log_freq=1", "max_steps=4")
    done = User(lab, tmp_path, nodes=nodes).run(*DOCKER, *words)
    assert done.exit_code == 0, done.output
    assert done.result(NAME)["values"]["global_steps"] == 4
