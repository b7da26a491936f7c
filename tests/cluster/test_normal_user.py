"""A person without root's rights: in the group docker, with docker at other sockets, or without docker at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from flagperf_run import DOCKER, SMALL, Done, User
from hosts import Host, TestCluster

PERSON, GROUP = "alice", "docker"
HOME = "/srv/alice"
OWN_SOCKET = "/run/user/5001/docker.sock"  # of a daemon that the person started
PROCESS = ("runtime=process", f"runtime.python={sys.executable}")
TRAINING = ("model=resnet50", "size=tiny", "nnodes=2", *SMALL, "max_steps=2")


@contextmanager
def person_on(host: Host, *, in_docker_group: bool) -> Iterator[None]:
    """The host has the person meanwhile."""
    group = f"s/^\\({GROUP}:.*\\)$/\\1{PERSON}/" if in_docker_group else ""
    host.output(
        "sh",
        "-c",
        f"""set -e
        {{ cat /etc/passwd; echo {PERSON}:x:5001:5001::{HOME}:/bin/sh; }} >/run/passwd
        {{ sed '{group}' /etc/group; echo {PERSON}:x:5001:; }} >/run/group
        for name in passwd group; do mount --bind /run/$name /etc/$name; done
        install -d -o 5001 -g 5001 {HOME} /run/user/5001 /srv/flagperf""",
    )
    try:
        yield
    finally:
        host.output("sh", "-c", f"umount /etc/passwd /etc/group; rm -rf {HOME} /run/user/5001 /srv/flagperf")


def train(lab: TestCluster, home: Path, runtime: tuple[str, ...]) -> Done:
    user = User(lab, home)
    file = user.read("cluster/lab")
    user.write("cluster/lab", {**file, "nodes": [{**node, "user": PERSON} for node in file["nodes"]]})
    return user.run(*runtime, *TRAINING)


def use_context(host: Host, socket: str) -> None:
    """The person's docker commands go to a socket by a context, which `docker context use` wrote."""
    script = f"""HOME={HOME} docker context create lab --docker host=unix://{socket}
        HOME={HOME} docker context use lab; chown -R 5001:5001 {HOME}/.docker"""
    host.output("sh", "-ec", script)


@pytest.mark.slow
def test_a_run_in_containers_of_a_person_in_the_group_docker(lab: TestCluster, tmp_path: Path) -> None:
    """On h1 at the usual socket; on h2 by a context at a socket of the person's own, as a rootless daemon has it.

    What another person keeps in the folder of sample data stays that person's.
    """
    shared = "/srv/flagperf/sample/of-another"
    with ExitStack() as stack:
        for host in lab.hosts:
            stack.enter_context(person_on(host, in_docker_group=True))
            host.output("install", "-d", "-o", "5001", "-g", "5001", "/srv/flagperf/sample")
            host.output("install", "-d", "-o", "5002", "-g", "5002", shared)
        usual = "/var/run/docker.sock"
        lab.hosts[1].output("sh", "-ec", f"mv {usual} {OWN_SOCKET}; chown 5001 {OWN_SOCKET}")
        stack.callback(lab.hosts[1].output, "mv", OWN_SOCKET, usual)
        use_context(lab.hosts[1], OWN_SOCKET)
        done = train(lab, tmp_path, DOCKER)
        of_others = [host.output("find", "/srv/flagperf", "!", "-user", PERSON) for host in lab.hosts]
    assert done.exit_code == 0, done.output
    assert done.result("resnet50-pytorch-cpux2x1")["verdict"] == "VALID"
    assert [files.split() for files in of_others] == [[shared], [shared]]  # the container's user is root


@pytest.mark.slow
def test_a_run_without_docker_of_a_person_who_has_none(lab: TestCluster, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for host in lab.hosts:
            stack.enter_context(person_on(host, in_docker_group=False))
        done = train(lab, tmp_path, PROCESS)
    assert done.exit_code == 0, done.output
    assert done.result("resnet50-pytorch-cpux2x1")["verdict"] == "VALID"
