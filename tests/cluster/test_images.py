"""How hosts come to an image: each policy on two real hosts, and what is said where it fails."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from flagperf_run import FAKE, OPEN, OURS, Done, User, assert_nothing_left, word
from hosts import IMAGE, Host, TestCluster, empty_image

SHELL = "flagperf-test:shell"  # what a Dockerfile of a test begins with
RUN = (*FAKE, "runtime=docker", f"runtime.python={sys.executable}", "nnodes=2", "max_steps=1")

DOCKERFILE = """
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY requirements.txt more-requirements.txt extra/note install.sh /opt/
RUN /opt/install.sh
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \\
    while read -r line; do echo "conf: $line"; done </run/secrets/pip.conf; \\
    while read -r line; do echo "ca: $line"; done </run/secrets/ca.pem; \\
    echo "proxy: $https_proxy"; echo done >/opt/built
"""

SAID = (  # in the log of its build
    "installing\n",
    "conf: index-url = https://index.example/simple\n",
    "ca: my-certificate\n",
    "proxy: ***\n",
)


def build_log(folder: Path) -> str:
    (log,) = folder.glob("*/round1/*/image_build.log")
    assert log.parent.name == "h1_noderank0"
    return log.read_text()


def layers(host: Host, image: str) -> str:
    return host.output("docker", "inspect", "-f", "{{json .RootFS.Layers}}", image)


def tags(host: Host) -> list[str]:
    """Images that flagperf built."""
    return sorted(host.output("docker", "images", "-q", "--filter", "reference=flagperf-cpu-pytorch").split())


@pytest.fixture
def folder(lab: TestCluster, tmp_path: Path) -> Path:
    """A folder with a Dockerfile; both hosts have the image that it starts from."""
    archive = empty_image(Path("/bin/sh"), Path("/bin/sleep"))
    for host in lab.hosts:
        host.output("docker", "import", "-", SHELL, stdin=archive)
    folder = tmp_path / "a b'c\"d$(touch hacked)`e`ü\nf"
    (folder / "extra").mkdir(parents=True)
    (folder / "extra" / "note").write_text("hello")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    (folder / "install.sh").write_text("#!/bin/sh\necho installing\n")
    (folder / "install.sh").chmod(0o700)
    (tmp_path / "ca.pem").write_text("my-certificate\n")
    return folder


def build(user: User, folder: Path, run_name: str) -> Done:
    return user.run(*words_of(folder), run_name=run_name)


def words_of(folder: Path) -> tuple[str, ...]:
    source = f"vendor.image={{pytorch: {{base: '{SHELL}', folder: {word(folder)}, requirements: [my-package]}}}}"
    return (
        *RUN,
        source,
        "+cluster.image.policy=build",
        "+cluster.image.index=https://index.example/simple",
        f"+cluster.image.ca_certificate={folder.parent / 'ca.pem'}",
        "+cluster.image.https_proxy=http://me:word@proxy.example:1",
    )


@pytest.mark.slow
def test_built_once_copied_to_the_others_and_again_when_its_content_changes(
    lab: TestCluster, tmp_path: Path, folder: Path
) -> None:
    user = User(lab, tmp_path, steps=True)
    first = build(user, folder, "first")
    assert first.exit_code == 0, first.output
    (image,) = tags(lab.hosts[0])
    assert tags(lab.hosts[1]) == [image]
    assert layers(lab.hosts[0], image) == layers(lab.hosts[1], image)
    assert "h2: image flagperf-cpu-pytorch:" in first.log
    assert ": copied from h1" in first.log

    kept = [path for path in first.folder.rglob("*") if path.is_file() and b"me:word" in path.read_bytes()]
    assert (kept, "me:word" in first.output) == ([], False)
    log = build_log(first.folder)
    assert [line for line in SAID if line not in log] == []

    saved = subprocess.run(["tar", "xO"], input=save(lab.hosts[0], image), capture_output=True).stdout
    assert b"my-package\n" in saved
    assert not [
        secret for secret in (b"my-certificate", b"index.example", b"proxy.example", b"me:word") if secret in saved
    ]

    second = build(user, folder, "second")
    assert (second.exit_code, tags(lab.hosts[0])) == (0, [image])
    assert "image flagperf-cpu" not in second.log

    (folder / "extra" / "note").write_text("changed")
    third = build(user, folder, "third")
    assert third.exit_code == 0, third.output
    assert len(tags(lab.hosts[0])) == len(tags(lab.hosts[1])) == 2
    assert_nothing_left(lab)


def save(host: Host, image: str) -> bytes:
    host.output("docker", "save", "-o", "/srv/saved.tar", image)
    return (host.root / "srv" / "saved.tar").read_bytes()


@pytest.mark.slow
def test_a_dockerfile_that_takes_long_and_fails_shows_what_it_does_and_its_last_lines(
    lab: TestCluster, tmp_path: Path, folder: Path
) -> None:
    (folder / "Dockerfile").write_text(f"FROM {SHELL}\nRUN echo before; sleep 12; echo the reason >&2; exit 7\n")
    process = building(lab, tmp_path, folder)
    assert lab.hosts[0].run("pgrep", "-af", "[m]e:word").stdout == ""
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "flagperf: h1: image flagperf-cpu-pytorch:" in output
    assert f"cannot be built from {folder}: exit code 1\n" in output
    assert f"  do:      the whole log: {tmp_path}/result/run/" in output
    assert "the reason" in output and "the reason" in build_log(tmp_path / "result/run")
    assert re.search(r"h1: flagperf-cpu-pytorch:\w+, 1\d s: .*before", output), output
    assert_nothing_left(lab)


def building(lab: TestCluster, home: Path, folder: Path) -> subprocess.Popen[str]:
    """A run in the middle of a build whose Dockerfile sleeps."""
    process = User(lab, home, steps=True).start(*words_of(folder))
    while lab.hosts[0].run("pgrep", "-f", "[s]leep [15]").returncode:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "SIGKILL"])
def test_a_build_ends_with_its_launcher(lab: TestCluster, tmp_path: Path, folder: Path, number: int) -> None:
    (folder / "Dockerfile").write_text(f"FROM {SHELL}\nRUN sleep 50\n")
    process = building(lab, tmp_path, folder)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    if number == signal.SIGINT:
        assert process.returncode == 130, output
        assert "RUN sleep 50" in build_log(tmp_path / "result/run")
    else:
        deadline = time.monotonic() + 15
        while lab.hosts[0].run("pgrep", "-f", f"[d]ocker build|{OURS}").returncode == 0:
            assert time.monotonic() < deadline, "the build goes on"
            time.sleep(0.2)
        assert User(lab, tmp_path).run("clean", "cluster=lab").exit_code == 0
    assert lab.hosts[0].run("pgrep", "-af", "[d]ocker build").stdout == ""
    assert_nothing_left(lab)


@pytest.mark.slow
def test_loaded_from_an_archive_of_the_launcher(lab: TestCluster, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    lab.hosts[0].output("docker", "tag", IMAGE, "theirs:1")
    archive.write_bytes(save(lab.hosts[0], "theirs:1"))
    lab.hosts[0].output("docker", "rmi", "theirs:1")
    words = (
        "+cluster.image.policy=load",
        f"+cluster.image.archive={archive}",
        "vendor.image={pytorch: {name: 'theirs:1'}}",
    )
    done = User(lab, tmp_path, steps=True).run(*RUN, *words)
    assert done.exit_code == 0, done.output
    assert layers(lab.hosts[1], "theirs:1") == layers(lab.hosts[0], IMAGE)


@pytest.mark.slow
def test_an_archive_without_the_image(lab: TestCluster, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    with tarfile.open(archive, "w"):
        pass
    words = (
        "+cluster.image.policy=load",
        f"+cluster.image.archive={archive}",
        "vendor.image={pytorch: {name: 'theirs:1'}}",
    )
    done = User(lab, tmp_path, steps=True).run(*RUN, *words)
    assert done.exit_code == 3
    assert "h1: image theirs:1 cannot be loaded: " in done.output
    assert "h2: image theirs:1 cannot be loaded: " in done.output
    assert_nothing_left(lab)


@pytest.mark.slow
def test_pulled_from_a_registry(lab: TestCluster, tmp_path: Path) -> None:
    name = "127.0.0.1:5000/theirs:1"
    here = Path(__file__).with_name("registry.py")
    for host in lab.hosts:
        host.output("docker", "save", "-o", "/srv/saved.tar", IMAGE)
        host.output("sh", "-c", "mkdir /srv/registry; tar xf /srv/saved.tar -C /srv/registry")
        shutil.copy(here, host.root / "srv")  # a host sees its own folders only
        host.output("sh", "-c", f"{sys.executable} /srv/registry.py 5000 /srv/registry >/dev/null 2>&1 &")
    words = ("+cluster.image.policy=pull", f"vendor.image={{pytorch: {{name: '{name}'}}}}")
    try:
        done = User(lab, tmp_path, steps=True).run(*RUN, *words)
        assert done.exit_code == 0, done.output
        assert layers(lab.hosts[1], name) == layers(lab.hosts[0], IMAGE)
    finally:
        for host in lab.hosts:
            host.run("pkill", "-f", "registry.py")


def test_a_registry_that_does_not_answer(lab: TestCluster, tmp_path: Path) -> None:
    words = ("+cluster.image.policy=pull", "vendor.image={pytorch: {name: '127.0.0.1:5001/none:1'}}")
    done = User(lab, tmp_path, steps=True).run(*RUN, *words)
    assert done.exit_code == 3
    said = "2 hosts cannot be used, in phase 'image':{}h1, h2: image 127.0.0.1:5001/none:1 cannot be pulled: .*refused"
    assert re.search("^flagperf: " + said.format("\n"), done.output, re.MULTILINE)
    assert re.search("round 1: failed: " + said.format(" "), done.output)
    assert_nothing_left(lab)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("python", "problem"),
    [
        pytest.param("/no/python3", ": Python does not start there: ", id="Python"),
        pytest.param("/usr/bin/python3", " has no module torch", id="the framework"),
    ],
)
def test_an_image_of_the_site_is_looked_at_before_the_ranks_start(
    lab: TestCluster, tmp_path: Path, python: str, problem: str
) -> None:
    words = ("runtime=docker", f"vendor.image.pytorch.name={IMAGE}", f"runtime.python={python}")
    done = User(lab, tmp_path).run(*words, "model=resnet50", "size=tiny", "nnodes=2", "max_steps=1", OPEN)
    assert done.exit_code == 3, done.output
    assert f"image {IMAGE}{problem}" in done.output, done.output
    assert "build on this one: vendor.image.pytorch.base=" in done.output
    assert_nothing_left(lab)
