"""`flagperf doctor` and `flagperf clean` on two hosts: what they find, and what they say to do."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from flagperf_run import DOCKER, OPEN, User
from hosts import TestCluster, in_place_of

from flagperf.cli.clean import clean
from flagperf.cli.doctor.hosts import examine
from flagperf.config.compose import compose
from flagperf.config.schema.cluster import Node, Ssh
from flagperf.config.schema.values import JobConfig
from flagperf.hosts.findings import Row
from flagperf.hosts.leftovers import this_owner
from flagperf.hosts.page_caches import clear_page_caches
from flagperf.hosts.ssh.transport import SshTransport

STOPPED = ("the docker daemon does not run", "start it there: systemctl start docker")
NOT_LOOKED = "flagperf did not search for containers: the docker daemon does not run"
BUILT_HERE = "the image is built here: install "


def job(user: User, *words: str) -> JobConfig:
    return compose(["cluster=lab", "dry_run=true", *words], [user.config_dir])


def rows(found: list[Row], check: str) -> list[Row]:
    return [row for row in found if row.check == check]


def dead_owner() -> str:
    """A process of this machine that has ended."""
    ended = subprocess.Popen(["true"])
    words = this_owner().split()
    ended.wait()
    words[2] = str(ended.pid)
    return " ".join(words)


@pytest.mark.slow
def test_doctor_names_what_would_stop_a_run(lab: TestCluster, tmp_path: Path) -> None:
    user = User(lab, tmp_path)
    words = ("cluster=lab", *DOCKER, "nnodes=2")
    usual, rootless = "/var/run/docker.sock", "/run/user/0/docker.sock"
    lab.hosts[1].output("sh", "-c", f"mkdir -p /run/user/0; mv {usual} {rootless}")
    well = user.run("doctor", *words)
    lab.hosts[1].output("mv", rootless, usual)
    assert well.exit_code == 0, well.output
    checks = {" ".join(line.split()[:2]) for line in well.output.splitlines()[1:]}
    names = ("ssh", "host", "clock", "own", "disk", "work_dir", "memory", "shm", "devices", "data", "interface", "port")
    assert checks >= {f"{host} {name}" for host in ("h1", "h2") for name in (*names, "docker", "image", "leftovers")}
    lab.hosts[0].stop("dockerd")
    lab.hosts[1].stop("sshd", 9)
    ill = user.run("doctor", *words)
    assert ill.exit_code == 3
    said = [" ".join(line.split()) for line in ill.output.splitlines()]
    after = [
        line for number, line in enumerate(said) if any("failed" in near for near in said[number - 1 : number + 1])
    ]
    assert after == [
        f"h1 docker failed {STOPPED[0]}",
        f"do: {STOPPED[1]}",
        f"h2 ssh failed the ssh port refuses connections: {lab.hosts[1].address}",
        "do: start sshd there, or correct the port in the cluster file",
    ]
    assert "h1 image skipped not checked: docker does not answer" in said
    assert f"h1 leftovers skipped none; containers were not checked: {STOPPED[0]}" in said


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        pytest.param(None, f"{BUILT_HERE}the docker command, with BuildKit", id="no docker command"),
        pytest.param(
            '#!/bin/sh\n[ "$1" = buildx ] && exit 1; echo "Docker version 27.3.1, build ce12230"\n',
            f"{BUILT_HERE}docker's plug-in buildx",
            id="no buildx",
        ),
    ],
)
def test_doctor_looks_for_what_a_build_needs_on_the_first_host(
    lab: TestCluster, tmp_path: Path, program: str | None, advice: str
) -> None:
    run = job(User(lab, tmp_path), "runtime=docker", OPEN)
    assert run.image is not None and run.image.policy == "build"
    with in_place_of(lab.hosts[0], "/usr/bin/docker", program):
        found = rows(asyncio.run(examine(run)), "image")
    text = f"{run.image.reference} is not there yet; policy build gets it"
    assert found == [Row("h1", "image", "warning" if advice else "ok", text, advice), Row("h2", "image", "ok", text)]


@pytest.mark.slow
def test_a_host_without_docker(lab: TestCluster, tmp_path: Path) -> None:
    user, host = User(lab, tmp_path), lab.hosts[0]
    host.stop("dockerd")
    host.output("rm", "-f", "/run/docker.sock")
    with in_place_of(host, "/usr/sbin/dockerd", None):
        without = rows(asyncio.run(examine(job(user, "runtime=process"))), "docker")[0]
        wanted = rows(asyncio.run(examine(job(user, *DOCKER))), "docker")[0]
        cleaned = asyncio.run(clean(job(user)))
    absent = "docker is not installed"
    assert without == Row("h1", "docker", "ok", f"{absent}; runtime=process needs none")
    assert wanted == Row("h1", "docker", "failed", absent, "install docker there, or choose runtime=process")
    assert cleaned == [Row(name, "clean", "ok", "nothing to remove") for name in ("h1", "h2")]


def test_clean_removes_what_is_left_of_dead_runs_only(lab: TestCluster, tmp_path: Path) -> None:
    host = lab.hosts[0]
    for name, by in {"dead": dead_owner(), "alive": this_owner(), "other": "elsewhere boot 1 2"}.items():
        folder = f"/srv/flagperf/{name}"
        host.output("mkdir", "-p", folder)
        host.output("sh", "-c", 'printf %s "$1" >"$2/.owner"', "-", by, folder)
        host.output("docker", "create", "--name", name, "--label", f"flagperf.owner={by}", "flagperf-test:empty", "x")
    host.output("docker", "create", "--name", "foreign", "flagperf-test:empty", "x")
    held, dead = (f"/tmp/flagperf-process.{name}" for name in ("held", "dead"))
    host.output("sh", "-c", f"mkdir -m 700 {held} {dead} && touch {held}/pid {dead}/pid")
    host.output("sh", "-c", f"flock {held}/lock sleep 20 >/dev/null 2>&1 &")
    user = User(lab, tmp_path)
    (found, _) = rows(asyncio.run(examine(job(user, "runtime=process"))), "leftovers")
    assert found == Row(
        "h1",
        "leftovers",
        "warning",
        f"of dead runs: /srv/flagperf/dead, {dead}, container dead",
        "flagperf clean cluster=lab",
    )
    done = user.run("clean", "cluster=lab")
    assert done.exit_code == 0, done.output
    assert [" ".join(line.split()) for line in done.output.splitlines()[-4:]] == [
        "h1 clean ok /srv/flagperf/dead",
        f"h1 clean ok {dead}",
        "h1 clean ok container dead",
        "h2 clean ok nothing to remove",
    ]
    assert host.output("ls", "/srv/flagperf").split() == ["alive", "other"]
    assert host.output("sh", "-c", "ls -d /tmp/flagperf-process.*").split() == [held]
    names = host.output("docker", "ps", "-a", "--format", "{{.Names}}").split()
    assert sorted(names) == ["alive", "foreign", "other"]


def test_clean_says_where_it_could_not_look(lab: TestCluster, tmp_path: Path) -> None:
    lab.hosts[0].stop("dockerd")
    lab.hosts[0].output(
        "sh", "-c", f"mkdir -p /srv/flagperf/dead; printf %s '{dead_owner()}' >/srv/flagperf/dead/.owner"
    )
    assert asyncio.run(clean(job(User(lab, tmp_path)))) == [
        Row("h1", "clean", "ok", "/srv/flagperf/dead"),
        Row("h1", "clean", "warning", NOT_LOOKED, STOPPED[1]),
        Row("h2", "clean", "ok", "nothing to remove"),
    ]


def test_a_user_who_is_not_root(lab: TestCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = lab.hosts[0]
    host.output("sh", "-c", "sed 's#^nobody:.*#nobody:x:65534:65534::/tmp:/bin/sh#' /etc/passwd >/run/passwd")
    host.output("mount", "--bind", "/run/passwd", "/etc/passwd")

    async def cleared() -> str:
        ssh = Ssh(key=str(lab.key), known_hosts=str(lab.known_hosts), config="/dev/null")
        async with SshTransport(Node("h1", host.address, user="nobody"), ssh, timeout=5) as transport:
            return await clear_page_caches(transport)

    user = User(lab, tmp_path)
    file = user.read("cluster/lab")
    file["nodes"] = [{**file["nodes"][0], "user": "nobody"}]
    user.write("cluster/lab", file)
    try:
        said = asyncio.run(cleared())
        docker = rows(asyncio.run(examine(job(user, *DOCKER))), "docker")
    finally:
        host.output("umount", "/etc/passwd")
    assert said.startswith("not cleared: ")
    assert [record.getMessage() for record in caplog.records] == [
        f"h1: the page caches were {said}; clear_caches needs root or sudo there"
    ]
    advice = "add the user to the group docker there, or log in as another"
    assert docker == [Row("h1", "docker", "failed", "this user may not use docker", advice)]
