"""Code and scripts of the user's and the vendor's own in a plan: the same with every runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example import HERE, example_job

from flagperf.config.schema.cluster import Cluster, Node
from flagperf.config.schema.platform import ContainerOptions, Extension, Image, Vendor
from flagperf.config.schema.values import JobConfig
from flagperf.plan.plan import make_plan
from flagperf.plan.values import SOURCE

BETA = Node("beta", "10.0.0.2")
LAB = Cluster("lab", "a host", (BETA,), work_dir="/var/tmp/fp")
DOCKER = {"container": ContainerOptions(), "image": Image("img:1", "present")}
RUN1 = Path("/res/run1")
SOURCED = ("bash", "-c", SOURCE)


def run_of(tmp_path: Path, **fields: Any) -> JobConfig:
    vendor = Vendor("acme", "ACME", "acme", "acmecl", None, None)
    extension = Extension(folder=str(tmp_path / "acme"), environment_script="env.sh")
    return example_job(vendor=replace(vendor, extension=extension), code_dir=str(tmp_path / "mine"), **fields)


@pytest.mark.parametrize(
    ("fields", "code", "path"),
    [
        pytest.param({}, "{here}/acme/code", "{here}/mine:{here}/acme/code", id="this machine"),
        pytest.param(
            {"python_path": "/a:/b"}, "{here}/acme/code", "{here}/mine:{here}/acme/code:/a:/b", id="PYTHONPATH stays"
        ),
        pytest.param({"cluster": LAB}, "/var/tmp/fp/run1/code", "/var/tmp/fp/run1/code", id="another host"),
        pytest.param(DOCKER, "/res/run1/code", "/res/run1/code", id="a container here"),
        pytest.param(
            {"cluster": LAB, **DOCKER}, "/var/tmp/fp/run1/code", "/var/tmp/fp/run1/code", id="a container there"
        ),
    ],
)
def test_ranks_find_it_everywhere(tmp_path: Path, fields: dict[str, Any], code: str, path: str) -> None:
    node = make_plan(run_of(tmp_path, **fields), 1, RUN1).nodes[0]
    assert node.launch.env["PYTHONPATH"] == path.format(here=tmp_path)
    listed = ("/bin/sh", node.environment_file)
    script = f"{code.format(here=tmp_path)}/env.sh"
    assert node.start.argv == (*listed, *SOURCED, script, *listed, *node.launch.argv)
    assert node.sent_code == (None if node.node is HERE and not node.container else path)
    if node.container:
        assert node.container.argv[4:] == node.start.argv


def test_the_script_can_use_secret_variables(tmp_path: Path) -> None:
    node = make_plan(run_of(tmp_path, secrets={"TOKEN": "x"}), 1, RUN1).nodes[0]
    assert node.start.argv[6:10] == (*SOURCED, f"{tmp_path}/acme/code/env.sh")


def test_without_own_code_a_local_rank_keeps_its_path() -> None:
    assert "PYTHONPATH" not in make_plan(example_job(python_path="/a"), 1, RUN1).nodes[0].launch.env
