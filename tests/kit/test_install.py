"""install.sh: nothing of a kit runs before its hashes are right, and only listed wheels are installed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from flagperf.kit.pack import INSTALL
from flagperf.kit.wheels import this_python

DOCKER = """#!/bin/sh
for context do :; done
cat "$context/Dockerfile"
ls "$context" "$context/flagperf-wheels"
cat "${0%/*}/../env/pip.conf"
"""
DOCKERFILE = "FROM base\nRUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf pip install x\nRUN true\n"


def add_wheel(folder: Path, name: str, version: str, needs: str = "") -> None:
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (
        f"Requires-Dist: {needs}\n" if needs else ""
    )
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"version = '{version}'\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)


def write_kit(folder: Path, **values: str) -> Path:
    """A kit of two packages; one needs the other."""
    kit = folder / "flagperf-kit"
    (kit / "wheels").mkdir(parents=True)
    (kit / "image").mkdir()
    (kit / "image" / "Dockerfile").write_text(DOCKERFILE)
    add_wheel(kit / "wheels", "alpha", "1.0", "beta_b")
    add_wheel(kit / "wheels", "beta_b", "1.0+cpu")
    shutil.copyfile(INSTALL, kit / "install.sh")
    given = {"KIT_PYTHON": this_python(), "KIT_REQUIREMENTS": "alpha==1.0", "KIT_COMMAND": "x=y"}
    empty = dict.fromkeys(("KIT_IMAGE", "KIT_BASE", "KIT_NAMES_PYTHON"), "")
    (kit / "kit.sh").write_text("".join(f"{name}='{value}'\n" for name, value in {**empty, **given, **values}.items()))
    files = sorted(path for path in kit.rglob("*") if path.is_file())
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(kit)}\n" for path in files)
    (kit / "SHA256SUMS").write_text("".join(sums))
    return kit


def install(kit: Path, env: str = "") -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {
        **os.environ,
        "PATH": f"{kit.parent}/bin:{os.environ['PATH']}",
        "HOME": str(kit.parent),
        "PYTHON": sys.executable,
        "PIP_INDEX_URL": "http://127.0.0.1:8737/",  # a server of another user
    }
    argv = ["sh", str(kit / "install.sh"), env or str(kit.parent / "env")]
    return subprocess.run(argv, cwd=kit, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_listed_wheels_are_installed_by_their_hashes(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(DOCKER)
    (tmp_path / "bin" / "docker").chmod(0o755)
    done = install(write_kit(tmp_path, KIT_IMAGE="flagperf:1"))
    assert done.returncode == 0, done.stdout + done.stderr
    python = tmp_path / "env" / "bin" / "python"
    told = subprocess.check_output(
        [python, "-c", "import alpha, beta_b; print(alpha.version, beta_b.version)"], text=True
    )
    assert told == "1.0 1.0+cpu\n"
    lines = [line.split(" --hash=sha256:") for line in (tmp_path / "env" / "requirements.txt").read_text().splitlines()]
    wheels = sorted((tmp_path / "flagperf-kit" / "wheels").iterdir())
    assert lines == [
        [name, hashlib.sha256(wheel.read_bytes()).hexdigest()]
        for name, wheel in zip(("alpha==1.0", "beta_b==1.0+cpu"), wheels, strict=True)
    ]
    mount = "--mount=type=bind,source=flagperf-wheels,target=/run/flagperf-wheels"
    build = DOCKERFILE.replace("target=/etc/pip.conf", f"target=/etc/pip.conf {mount}").splitlines()
    built = done.stdout.partition("3 of 4")[2].partition("4 of 4")[0].splitlines()[1:]
    assert built[: len(build)] == build
    assert built[-3:] == ["[global]", "no-index = true", "find-links = /run/flagperf-wheels"]
    assert [wheel.name for wheel in wheels] == [line for line in built if line.endswith(".whl")]


def replace(name: str, content: str) -> Callable[[Path], object]:
    return lambda kit: (kit / name).write_text(content)


def pipe(kit: Path) -> None:
    (kit / "kit.sh").unlink()
    os.mkfifo(kit / "kit.sh")


DAMAGED = "the kit is damaged: fetch it again"
UNLISTED = "the kit has files that SHA256SUMS does not list; unpack it into a new folder: ./"
STRANGE = "the kit has links, devices or setuid files, which flagperf does not pack: ./"
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "other values": (replace("kit.sh", "touch ran\n"), DAMAGED),
    "another installer": (replace("install.sh", f"{INSTALL.read_text()}\n"), DAMAGED),
    "an installer that is not listed": (
        lambda kit: replace("SHA256SUMS", (kit / "SHA256SUMS").read_text().replace("install.sh", "Install.sh"))(kit),
        DAMAGED,
    ),
    "another wheel": (lambda kit: add_wheel(kit / "wheels", "beta_b", "1.0+cpu", "alpha"), DAMAGED),
    "a wheel that is not listed": (
        lambda kit: add_wheel(kit / "wheels", "beta_b", "9.0"),
        f"{UNLISTED}wheels/beta_b-9.0-py3-none-any.whl",
    ),
    "an environment in the kit": (lambda kit: shutil.copytree(kit / "image", kit / "env"), f"{UNLISTED}env/Dockerfile"),
    "a link": (lambda kit: (kit / "wheels" / "x").symlink_to("/tmp"), f"{STRANGE}wheels/x"),
    "a pipe": (pipe, f"{STRANGE}kit.sh"),
    "a setuid file": (lambda kit: (kit / "kit.sh").chmod(0o4755), f"{STRANGE}kit.sh"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_nothing_of_another_kit_runs(change: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    kit = write_kit(tmp_path)
    change(kit)
    done = install(kit)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"install.sh: {message}"
    assert not (kit / "ran").exists() and not (tmp_path / "env").exists()


def test_the_environment_lies_outside_of_the_kit(tmp_path: Path) -> None:
    """In the kit, its files would not be listed when the installer runs again."""
    kit = write_kit(tmp_path)
    done = install(kit, "env")
    problem = "the new environment would lie in the kit, whose files are all listed"
    assert (done.returncode, done.stderr) == (1, f"install.sh: {problem}: sh install.sh FOLDER, elsewhere\n")
    assert not (kit / "env").exists()
