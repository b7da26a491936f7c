"""`flagperf check vendor=… model=…`, and a run of a tuning whose own code makes another network of the case's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"
SHRINK = '''"""Makes a network smaller."""

from torch import nn


def shrink(network):
    """The network with one filter less."""
    network.fc = nn.Linear(network.fc.in_features, 5)
    return network
'''
TUNING = "# @package _global_\nvendor: {extension: {network_hook: smaller.shrink}}\n"
WORDS = ("vendor=acme", "hardware=A1", "model=resnet50", "runtime=process")
OTHER = "4,636,869 parameters, the case has 4,641,994"


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """The vendor, whose tuning makes the network smaller."""
    folder = Path(shutil.copytree(DATA / "acme", tmp_path / "acme"))
    code = folder / "vendors/acme/code"
    code.mkdir(parents=True)
    (code / "smaller.py").write_text(SHRINK)
    (folder / "vendor/acme/resnet50/A1.yaml").write_text(TUNING)
    return folder


def flagperf(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("flagperf")), "--config-dir", str(folder), *words]
    environment = {**os.environ, "COLUMNS": "300"}
    return subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, env=environment)


@pytest.mark.torch
def test_the_check_says_what_differs_and_keeps_no_proof(acme: Path) -> None:
    done = flagperf(acme, "check", *WORDS)
    assert (done.returncode, done.stdout) == (
        2,
        "network_hook:        smaller.shrink\n"
        "network:             another network than the case's: fc.weight is [5, 1024], the case has [10, 1024]; "
        "2 parameters and buffers differ\n",
    ), done.stderr
    assert not (acme / "vendors/acme/proofs").exists()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("division", "exit_code", "verdict"),
    [pytest.param("closed", 5, "INVALID", id="closed"), pytest.param(None, 0, "VALID", id="not said: open")],
)
def test_its_run(acme: Path, division: str | None, exit_code: int, verdict: str) -> None:
    said = [f"division={division}"] if division else []
    done = flagperf(acme, *WORDS, "size=tiny", "max_steps=2", "num_workers=0", "run_name=run", *said)
    assert done.returncode == exit_code, done.stdout + done.stderr
    path = acme.parent / "result/run/resnet50-pytorch-A1x1x1/round1/result.json"
    result = json.loads(path.read_text())
    told = " ".join(result["reasons"] if division else result["notes"])
    assert (result["division"], result["verdict"]) == (division or "open", verdict)
    assert f"another network than the case's: {OTHER}" in told
    assert ("nothing shows that the vendor's own code does what the case does" in told) == bool(division)


@pytest.mark.parametrize(
    ("words", "problem", "advice"),
    [
        pytest.param(
            ("vendor=acme", "hardware=A1", "model=glm"),
            "the vendor has no own code for this case",
            "name it in the vendor's file or in a tuning; docs/adding-a-vendor.md shows how",
            id="no own code",
        ),
        pytest.param(
            ("model=glm",),
            "check takes a vendor, and may take a case of it",
            "flagperf check vendor=NAME [model=CASE OVERRIDES…]",
            id="no vendor",
        ),
    ],
)
def test_refused(acme: Path, words: tuple[str, ...], problem: str, advice: str) -> None:
    done = flagperf(acme, "check", *words)
    assert done.returncode == 2
    assert problem in done.stderr and advice in done.stderr
