"""Containers of docker on nodes of a real Slurm cluster, each with a daemon of its own: they end with the job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from flagperf_run import DOCKER
from hosts import IMAGE, image_mounts
from slurm_lab import NODES, SlurmLab
from slurm_user import NAME, STEPPING, TRAINING, SlurmUser, job_of, stepping, until
from test_slurm import ENDINGS

from flagperf.plan.container import MARK

SHORT = (*(word for word in STEPPING if not word.startswith("max_steps")), "max_steps=2", *DOCKER)
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"  # docker of the distribution, with what builds images
OTHER = "flagperf-test:other"


def user_of(lab: SlurmLab, home: Path, **slurm: object) -> SlurmUser:
    """A person whose containers see this machine's Python."""
    user = SlurmUser(lab, home, **slurm)
    file = user.home / "bench" / "cluster" / "site.yaml"
    limits = {"memlock": None}  # raising it needs a capability that a virtual machine may lack
    container = {"mounts": {folder: folder for folder in image_mounts()}, "ulimits": limits}
    user.write("cluster/site", {**yaml.safe_load(file.read_text()), "container": container, "work_dir": "/srv/work"})
    return user


def containers(lab: SlurmLab, *words: str) -> dict[str, list[str]]:
    """Names of the containers of each node."""
    shown = {node: lab.on(node, "docker", "ps", "--all", "--format={{.Names}}", *words).split() for node in NODES}
    return {node: names for node, names in shown.items() if names}


def in_mid_run(user: SlurmUser) -> subprocess.Popen[str]:
    """A run both of whose containers make steps."""
    process = user.start(*STEPPING, *DOCKER)
    until(lambda: stepping(user), "a step")
    assert set(containers(user.lab)) == set(NODES)
    return process


@pytest.mark.slow
def test_the_ranks_of_each_node_run_in_a_container(docker_slurm: SlurmLab, tmp_path: Path) -> None:
    done = user_of(docker_slurm, tmp_path).run(*SHORT)
    assert done.exit_code == 0, done.output
    about = (done.folder / NAME / "round1" / "n2_noderank1" / "sys_info.log").read_text()
    assert f"\nimage: {IMAGE}\n" in about
    assert containers(docker_slurm) == {}
    assert docker_slurm.queue() == []


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(900)
def test_a_training_on_nodes_with_files_of_their_own_reaches_its_target(docker_slurm: SlurmLab, tmp_path: Path) -> None:
    user = user_of(docker_slurm, tmp_path, shared=False)
    done = user.end(user.start(*TRAINING, *DOCKER, "require_target=true"), timeout=800)
    assert done.exit_code == 0, done.output
    result = done.result(NAME)
    assert (result["verdict"], result["target_reached"]) == ("VALID", True)
    assert containers(docker_slurm) == {}
    assert [docker_slurm.on(node, "ls", "/srv/work") for node in NODES] == ["sample\n", "sample\n"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDINGS)
def test_no_container_outlives_its_job(docker_slurm: SlurmLab, tmp_path: Path, name: str) -> None:
    fault, line = ENDINGS[name]
    user = user_of(docker_slurm, tmp_path)
    process = in_mid_run(user)
    fault(docker_slurm)
    done = user.end(process)
    assert done.exit_code == 5, done.output
    assert re.search(f"failed: .*{line}", done.output), done.output
    docker_slurm.repair()  # without slurmd nobody ends what runs on a node
    until(lambda: docker_slurm.queue() == [] and containers(docker_slurm) == {}, "nothing is left", 30)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_no_container_outlives_its_launcher(docker_slurm: SlurmLab, tmp_path: Path, number: signal.Signals) -> None:
    user = user_of(docker_slurm, tmp_path)
    process = in_mid_run(user)
    os.kill(process.pid, number)
    user.end(process)
    until(lambda: docker_slurm.queue() == [] and containers(docker_slurm) == {}, "nothing is left", 30)


@pytest.mark.slow
def test_a_container_without_its_keeper_is_removed_by_the_next_run_or_clean(
    docker_slurm: SlurmLab, tmp_path: Path
) -> None:
    user = user_of(docker_slurm, tmp_path)
    process = in_mid_run(user)
    left, job = containers(docker_slurm), job_of(docker_slurm)
    for (name,) in left.values():
        subprocess.run(["pkill", "-KILL", "-f", f"{MARK}={name}"], check=True)
    docker_slurm.run("scancel", job)
    user.end(process)
    until(lambda: docker_slurm.queue() == [], "the queue is empty", 30)
    assert containers(docker_slurm, f"--filter=label=flagperf.slurm_job={job}", "--filter=status=running") == left
    again = user.run(*SHORT, "nnodes=1", "cluster.slurm.options={nodelist: n1}", run_name="again")
    assert f"n1: removing {left['n1'][0]}, left behind by a run that died" in again.log
    assert containers(docker_slurm) == {"n2": left["n2"]}
    assert "nodes are reached in an allocation only" in user.run("clean", "cluster=site").output
    docker_slurm.run("salloc", "--no-shell", "--nodes=2", "--exclusive")
    other = ("--label=flagperf.owner=elsewhere boot 1 1", f"--label=flagperf.slurm_job={job}")
    docker_slurm.on("n1", "docker", "create", "--name=others", *other, IMAGE, "true")
    cleaned = user.run("clean", "cluster=site", SLURM_JOB_ID=job_of(docker_slurm))
    assert cleaned.exit_code == 0, cleaned.output
    rows = {line.split(maxsplit=3)[3] for line in cleaned.output.splitlines() if line.startswith("n")}
    assert rows == {"container others", f"container {left['n2'][0]}"}
    assert containers(docker_slurm) == {}


@pytest.mark.slow
def test_an_allocation_whose_nodes_others_may_use_is_told(docker_slurm: SlurmLab, tmp_path: Path) -> None:
    docker_slurm.run("salloc", "--no-shell", "--nodes=2")
    job = job_of(docker_slurm)
    done = user_of(docker_slurm, tmp_path).run(*SHORT, SLURM_JOB_ID=job)
    assert done.exit_code == 0, done.output
    assert f"Slurm job {job} may share its nodes with others" in done.log
    assert docker_slurm.queue() == [f"{job} RUNNING"]


def loaded(lab: SlurmLab, home: Path) -> tuple[str, ...]:
    """An archive that no node has loaded."""
    archive = home / "image.tar"
    lab.on("n1", "docker", "tag", IMAGE, OTHER)
    lab.on("n1", "docker", "save", f"--output={archive}", OTHER)
    lab.on("n1", "docker", "rmi", OTHER)
    return f"vendor.image.pytorch.name={OTHER}", "+cluster.image.policy=load", f"+cluster.image.archive={archive}"


def built(_lab: SlurmLab, home: Path) -> tuple[str, ...]:
    """A Dockerfile that the first node builds; the other gets a copy."""
    folder = home / "folder"
    folder.mkdir()
    (folder / "Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY requirements.txt /opt/\n")
    name = f"vendor.image={{pytorch: {{base: '{IMAGE}', folder: '{folder}', requirements: [mine]}}}}"
    return name, "+cluster.image.policy=build"


@pytest.mark.slow
@pytest.mark.parametrize("bring", [loaded, built])
def test_images_come_to_the_nodes(
    docker_slurm: SlurmLab, tmp_path: Path, bring: Callable[[SlurmLab, Path], tuple[str, ...]]
) -> None:
    user = user_of(docker_slurm, tmp_path)
    words = (word for word in SHORT if IMAGE not in word)
    done = user.run(*words, *bring(docker_slurm, tmp_path), PATH=SYSTEM)
    assert done.exit_code == 0, done.output
    assert containers(docker_slurm) == {}
    assert [docker_slurm.on(node, "ls", "-A", "/srv/work") for node in NODES] == ["", ""]


@pytest.mark.slow
def test_a_run_in_containers_is_submitted(docker_slurm: SlurmLab, tmp_path: Path) -> None:
    user = user_of(docker_slurm, tmp_path)
    done = user.run(*SHORT, "submit=true")
    assert done.exit_code == 0, done.output
    until(lambda: docker_slurm.queue() == [], "the job has ended", 90)
    log = "".join(path.read_text() for path in done.folder.glob("slurm-*.log"))
    assert done.result(NAME)["status"] == "finished", log
    assert "may share its nodes" not in done.log
    assert containers(docker_slurm) == {}


def test_doctor_says_what_it_cannot_know_of_docker(slurm: SlurmLab, tmp_path: Path) -> None:
    done = user_of(slurm, tmp_path).run("doctor", "nnodes=2", *DOCKER)
    (line,) = (line for line in done.output.splitlines() if line.split()[1:2] == ["container"])
    said = f"docker, image {IMAGE} by policy present: nodes are asked when a run begins"
    assert line.split(maxsplit=3)[2:] == ["skipped", said]
    assert done.exit_code == 0, done.output
