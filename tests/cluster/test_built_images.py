"""Images of the frameworks' Dockerfiles, built whole on one host, copied to the other, and trained in on both.

The base image is a small Debian with its own Python: a registry with `python:3.11-slim` is not needed. The hosts reach
the indexes of packages through a proxy, as in many machine rooms.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from flagperf_run import User, assert_nothing_left
from hosts import TestCluster
from proxy import proxy

BASE = "flagperf-test:debian"
DEBIAN = (
    "mmdebstrap",
    "--variant=minbase",
    "--include=python3,python3-pip,ca-certificates",
    "--customize-hook=rm $1/usr/lib/python3.*/EXTERNALLY-MANAGED",  # as in python:3.11-slim, pip may install
    "bookworm",
)
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"  # Debian's, and those that this machine adds
SMALL = ("size=tiny", "nnodes=2", "max_steps=3", "log_freq=1", "num_workers=0", "train_batch_size=8")
WITHOUT_MOUNTS = {"shm_size": "256m", "ulimits": {"memlock": None}}  # what is in the image must be enough
CACHE = "docker builder prune --all --force"


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tar of Debian with Python and pip."""
    if not shutil.which(DEBIAN[0]):
        pytest.skip("needs mmdebstrap")
    archive = tmp_path_factory.mktemp("debian") / "root.tar"
    done = subprocess.run([*DEBIAN, archive, "http://deb.debian.org/debian"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return archive


@pytest.fixture
def online(lab: TestCluster, debian: Path) -> Iterator[tuple[str, ...]]:
    """Words that let a build use Debian's image and reach the indexes of packages."""
    builder = lab.hosts[0]
    builder.output("docker", "import", "-", BASE, stdin=debian.read_bytes())
    with proxy(lab.address) as url:
        yield (
            "+cluster.image.policy=build",
            f"+cluster.image.http_proxy={url}",
            f"+cluster.image.https_proxy={url}",
            f"+cluster.image.ca_certificate={CERTIFICATES}",
        )
    builder.run("sh", "-c", CACHE)  # gigabytes, which no other test needs


@pytest.mark.slow
@pytest.mark.timeout(1200)  # most of it: pip and the copy to the other host
@pytest.mark.parametrize(
    ("framework", "case"),
    [
        pytest.param("paddle", "bert", marks=pytest.mark.paddle),
        pytest.param("tensorflow2", "resnet50", marks=pytest.mark.tensorflow2),
        pytest.param("mindspore", "resnet50", marks=pytest.mark.mindspore),
    ],
)
def test_an_image_is_built_whole_and_trains_on_two_hosts(
    lab: TestCluster, tmp_path: Path, online: tuple[str, ...], framework: str, case: str
) -> None:
    image = ("runtime=docker", f"vendor.image.{framework}.base={BASE}", *online)
    done = User(lab, tmp_path, container=WITHOUT_MOUNTS).run(
        f"model={case}", f"framework={framework}", *image, *SMALL, timeout=1100
    )
    assert done.exit_code == 0, done.output
    result = done.result(f"{case}-{framework}-cpux2x1")
    assert (result["verdict"], result["values"]["global_steps"]) == ("VALID", 3)
    assert f"h2: image flagperf-cpu-{framework}:" in done.log  # copied there, not built twice
    assert_nothing_left(lab)
