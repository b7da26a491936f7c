"""Whether ranks find what they need, asked before anything starts: real interpreters of this machine."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import platform
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example import PYTORCH, example_job

from flagperf.config.compose import compose
from flagperf.config.parts.needs import Needs, needs_of
from flagperf.config.parts.versions import satisfies
from flagperf.config.schema.framework import local_python
from flagperf.config.schema.platform import Extension, Framework, Image, ImageSource, Vendor
from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts.local import LocalTransport
from flagperf.run.runtime import environment

OTHER = Framework(
    "other",
    ("{python}", "-m", "flagperf.trainer.start", "{config}"),
    module="no_such_framework",
    packages=("pyyaml", "no-such-framework"),
    python="{prefix}-other/bin/python",
    install="make other",
)
VERSIONS = {
    "python": platform.python_version(),
    "pyyaml": importlib.metadata.version("pyyaml"),
    "no-such-framework": "not installed",
}
PACKAGES = ("--extra-index-url https://host/simple", "pyyaml>=99", "acme-kernels==1.2")  # what nobody installs
DO = "  do:      make other, name another with runtime.python=PATH, or train in a container with runtime=docker"


@pytest.mark.asyncio
@pytest.mark.parametrize("has_own", [True, False], ids=["the launcher's own", "another"])
async def test_versions_of_the_frameworks_packages(tmp_path: Path, has_own: bool) -> None:
    """An interpreter by another name is started to know."""
    async with LocalTransport("here") as here:
        launch = Command((sys.executable if has_own else str(linked(tmp_path / "python")),))
        assert await environment(example_job(framework=replace(OTHER, module="yaml")), here, launch) == VERSIONS


def linked(path: Path, folder: Path | None = None) -> Path:
    """This environment's interpreter under another name. `folder`: of packages that come before all others."""
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{folder or ""}" exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.asyncio
@pytest.mark.parametrize("has_own", [True, False], ids=["the launcher's own", "another"])
async def test_all_that_is_missing_is_said_at_once(tmp_path: Path, has_own: bool) -> None:
    """With what was found where, what is needed, and what to do. The torch is one of a package list alone."""
    packages = tmp_path / "packages"
    (packages / "torch-1.13.1+vendor.dist-info").mkdir(parents=True)
    (packages / "torch-1.13.1+vendor.dist-info/METADATA").write_text("Name: torch\nVersion: 1.13.1+vendor\n")
    needs = {"python": "3.99", "torch": "2.0", "pyyaml": "5", "no-such-library": "1.0"}
    stack = replace(OTHER, module="yaml", packages=("torch",), needs=needs, version="2.1")
    vendor = Vendor("acme", "ACME", "acme", "acmecl", "torch_acme", None)
    python = sys.executable if has_own else str(linked(tmp_path / "python", packages))
    torch = importlib.metadata.version("torch") if has_own else "1.13.1+vendor"
    async with LocalTransport("here") as here:
        with pytest.raises(HostError) as refused:
            await environment(example_job(framework=stack, vendor=vendor), here, Command((python,)))
    old = "" if has_own else f"torch {torch} (sums needs 2.0 or newer); "
    assert str(refused.value) == (
        f"here: {python} has no module torch_acme; "
        f"python {platform.python_version()} (sums needs 3.99 or newer); {old}"
        "no no-such-library (sums needs 1.0 or newer); "
        f"torch {torch}, where framework.version=2.1 was asked for\n{DO}"
    )


@pytest.mark.asyncio
async def test_a_framework_that_is_missing_says_how_to_get_it() -> None:
    """And no more: what else is missing comes with it."""
    stack = replace(OTHER, needs={"no-such-library": "1.0"})
    async with LocalTransport("here") as here:
        with pytest.raises(HostError) as refused:
            await environment(example_job(framework=stack), here, Command((sys.executable,)))
    assert str(refused.value) == f"here: {sys.executable} has no module no_such_framework\n{DO}"


@pytest.mark.asyncio
async def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    async with LocalTransport("here") as here:
        with pytest.raises(HostError, match=re.escape(f"{tmp_path}/python: Python does not start there: ")):
            await environment(example_job(framework=OTHER), here, Command((f"{tmp_path}/python",)))


@pytest.mark.parametrize(
    ("versions", "unmet"),
    [
        pytest.param({"torch": "2.0.0"}, [], id="the lowest"),
        pytest.param({"torch": "2.10.1"}, [], id="numbers, not letters"),
        pytest.param({"torch": "2.0.0a0+git1234"}, [], id="a build of a vendor's"),
        pytest.param({"torch": "1.13.1+corex"}, ["torch 1.13.1+corex (glm needs 2.0 or newer)"], id="too old"),
        pytest.param({}, ["no torch (glm needs 2.0 or newer)"], id="not there"),
        pytest.param({"torch": "unknown"}, [], id="no version that can be read"),
    ],
)
def test_versions(versions: dict[str, str], unmet: list[str]) -> None:
    assert Needs("glm", packages=("torch",), lowest={"torch": "2.0"}).unmet([], versions) == unmet


@pytest.mark.parametrize(
    ("case", "libraries"),
    [
        pytest.param("bert", {"transformers", "timm", "torchmetrics", "h5py"}, id="bert"),
        pytest.param("detr", {"torchvision", "transformers", "timm", "scipy", "faster-coco-eval", "pillow"}, id="detr"),
        pytest.param("faster_rcnn", {"torchvision", "faster-coco-eval", "pillow"}, id="faster_rcnn"),
        pytest.param("resnet50", {"torchvision", "torchmetrics", "pillow", "scikit-learn"}, id="resnet50"),
        pytest.param("cpm", {"transformers", "sentencepiece", "jieba", "torchmetrics"}, id="cpm"),
    ],
)
def test_the_libraries_of_a_case(case: str, libraries: set[str]) -> None:
    """Those of its classes, and those that its own code imports, however deep; no more."""
    needs = needs_of(compose([f"model={case}", "dry_run=true"]))
    assert set(needs.lowest) == {*PYTORCH.needs, *libraries}
    assert needs.modules == ("torch",)


@pytest.mark.parametrize("case", ["cpm", "flux1", "glm", "resnet50", "retinanet", "t5_small", "tacotron2", "wav2vec2"])
def test_who_writes_sample_data_needs_what_its_writer_imports(case: str) -> None:
    """And a training on real data does not."""
    full = compose([f"model={case}", "size=full", "dry_run=true"])
    module = full.config["data"]["sample"]["_target_"].rpartition(".")[0]
    nodes = ast.walk(ast.parse(Path(*module.split(".")).with_suffix(".py").read_text()))
    imports = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    nodes = ast.walk(ast.parse(Path(*module.split(".")).with_suffix(".py").read_text()))
    imports |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    packages = {str(name).partition(".")[0] for name in imports} - {*sys.stdlib_module_names, "cases"}
    named = {{"PIL": "pillow", "sklearn": "scikit-learn"}.get(name, name) for name in packages}
    assert named <= set(needs_of(full, sample=True).lowest)
    assert needs_of(full) == needs_of(full, sample=False)


def test_a_plugin_that_the_users_code_brings_is_not_looked_for(tmp_path: Path) -> None:
    vendor = Vendor("acme", "ACME", "acme", "acmecl", "torch_acme", None)
    looked = needs_of(example_job(vendor=vendor, code_dir=str(tmp_path))).modules
    (tmp_path / "torch_acme.py").touch()
    assert (looked, needs_of(example_job(vendor=vendor, code_dir=str(tmp_path))).modules) == (
        ("torch", "torch_acme"),
        ("torch",),
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("asked", "key"),
    [
        pytest.param({"extension": Extension(requirements=PACKAGES)}, "vendor.extension.requirements", id="own code"),
        pytest.param(
            {"image": {"other": ImageSource(requirements=PACKAGES)}}, "vendor.image.other.requirements", id="image"
        ),
    ],
)
async def test_packages_that_nobody_installs_are_looked_for(asked: dict[str, Any], key: str) -> None:
    vendor = Vendor("acme", "ACME", "acme", "acmecl", None, None, **asked)
    job = example_job(framework=replace(OTHER, module="yaml"), vendor=vendor)
    async with LocalTransport("here") as here:
        with pytest.raises(HostError) as refused:
            await environment(job, here, Command((sys.executable,)))
    assert str(refused.value) == (
        f"here: {sys.executable} has pyyaml {VERSIONS['pyyaml']}, where {key} asks for pyyaml>=99; "
        f"no acme-kernels, where {key} asks for acme-kernels==1.2\n{DO}"
    )


@pytest.mark.parametrize(
    ("image", "looked_for"),
    [
        pytest.param(Image("acme:1", "present"), ("acme-kernels",), id="a ready image"),
        pytest.param(Image("acme:1", "build"), (), id="a built one has them"),
    ],
)
def test_packages_in_images(image: Image, looked_for: tuple[str, ...]) -> None:
    extension = Extension(requirements=("acme-kernels",))
    vendor = Vendor("acme", "ACME", "acme", "acmecl", None, None, extension=extension)
    assert needs_of(example_job(vendor=vendor, image=image)).requirements.keys() == set(looked_for)


@pytest.mark.parametrize(
    ("version", "line", "fits"),
    [
        pytest.param("1.2", "acme-kernels", True, id="any version"),
        pytest.param("1.2", "acme-kernels>=1.1,<2", True, id="in a range"),
        pytest.param("1.3rc1", "acme-kernels>=1.2", True, id="a candidate"),
        pytest.param("1.2", "acme-kernels==1.3", False, id="another"),
        pytest.param("not installed", "acme-kernels", False, id="none"),
        pytest.param("1.2", "-r other.txt", False, id="no package"),
    ],
)
def test_lines_of_a_requirements_file(version: str, line: str, fits: bool) -> None:
    assert satisfies(version, line) == fits


def test_the_lowest_versions_are_those_of_the_oldest_environment() -> None:
    """`make oldest` installs them, and tests train on it. No old Python has those of flux1."""
    extras = ("train-oldest", "train-older")
    installed: dict[str, Any] = {"python": "3.8"}
    for line in importlib.metadata.requires("flagperf") or []:
        requirement, _, condition = line.partition(";")
        if any(extra in condition for extra in extras):
            name, *lowest = re.findall(r"^[\w-]+|(?<=[>=]=)[\d.]*\d", requirement)
            installed[name] = "".join(lowest)
    lowest = {**PYTORCH.needs, **PYTORCH.case_needs}
    assert {name: lowest.pop(name) for name in ("diffusers", "pyarrow")} == {"diffusers": "0.41", "pyarrow": "14"}
    assert {name: installed[name] for name in lowest} == lowest


def test_an_environment_of_the_frameworks_own_is_used_where_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert [local_python(framework) for framework in (PYTORCH, OTHER)] == [sys.executable, sys.executable]
    (tmp_path / ".venv-other/bin").mkdir(parents=True)
    (tmp_path / ".venv-other/bin/python").symlink_to(os.path.realpath(sys.executable))
    assert [local_python(framework) for framework in (PYTORCH, OTHER)] == [
        sys.executable,
        str(tmp_path / ".venv-other/bin/python"),
    ]
