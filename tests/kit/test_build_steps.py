"""What a Dockerfile downloads, read from its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagperf.config.schema.platform import Image, ImageSettings, ImageSource
from flagperf.kit.build_steps import Download, build_downloads, registry

DOCKERFILE = """\
# FROM a comment
ARG BASE_IMAGE=python:3.11-slim
FROM ${BASE_IMAGE}
RUN apt-get update && apt-get install --yes --no-install-recommends g++ git && rm -rf /var/lib/apt/lists/*
COPY requirements.txt more-requirements.txt /opt/
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \\
    pip install --extra-index-url https://wheels.example.com/cu126/ -r /opt/requirements.txt && \\
    git clone --depth 1 https://git.example.com/op.git && curl -O https://files.example.com/driver.run
"""


@pytest.mark.parametrize(
    ("base", "index", "image", "pip"),
    [
        pytest.param(None, None, "python:3.11-slim", "the base image's own index of pip, else pypi.org", id="defaults"),
        pytest.param("vendor.example.com/torch:2", "https://pip.example.com", "vendor.example.com/torch:2",
                     "https://pip.example.com", id="a base and an index"),
    ],
)  # fmt: skip
def test_downloads_of_a_build(tmp_path: Path, base: str | None, index: str | None, image: str, pip: str) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "requirements.txt").write_text("--pre\ntorch>=2  # with a plug-in\n\n")
    source = ImageSource(base=base, requirements=("torch-plugin==1",))
    settings = ImageSettings(index=index)
    assert list(build_downloads(Image("flagperf:1", "build", settings, tmp_path, source))) == [
        Download("image", image, "vendor.example.com" if base else "docker.io"),
        Download("packages", "g++, git", "the package index of the base image's system"),
        Download("pip", "torch>=2, torch-plugin==1", f"{pip} and https://wheels.example.com/cu126/"),
        Download("git", "https://git.example.com/op.git", "its URL"),
        Download("file", "https://files.example.com/driver.run", "its URL"),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("python:3.11", "docker.io"), ("user/image", "docker.io"), ("localhost/image", "localhost"),
     ("lab:5000/image:1", "lab:5000"), ("nvcr.io/nvidia/pytorch:25.01", "nvcr.io")],
)  # fmt: skip
def test_registry_of_a_name(name: str, expected: str) -> None:
    assert registry(name) == expected
