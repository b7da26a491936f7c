"""`flagperf check vendor=… model=…`, and a run of a tuning whose own code makes another network of the case's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.config.rules.extension import NO_PROOF

DATA = Path(__file__).parents[1] / "data"
SMALLER = '''"""Makes a network smaller."""

from torch import nn


def factored(network):
    """The network with a last layer of two factors."""
    network.fc = nn.Sequential(nn.Linear(network.fc.in_features, 8), nn.Linear(8, network.fc.out_features))
    return network
'''
TUNING = "# @package _global_\nvendor: {extension: {network_hook: smaller.factored}}\n"
WORDS = ("vendor=acme", "hardware=A1", "model=resnet50", "runtime=process")
OTHER = "4,637,986 parameters, the case has 4,641,994"


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """The vendor, whose tuning makes the network smaller."""
    folder = Path(shutil.copytree(DATA / "acme", tmp_path / "acme"))
    code = folder / "vendors/acme/code"
    code.mkdir(parents=True)
    (code / "smaller.py").write_text(SMALLER)
    (folder / "vendor/acme/resnet50/A1.yaml").write_text(TUNING)
    return folder


def flagperf(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("flagperf")), "--config-dir", str(folder), *words]
    environment = {**os.environ, "COLUMNS": "300"}
    return subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, env=environment)


@pytest.mark.torch
@pytest.mark.slow
def test_the_check_says_what_differs_and_keeps_no_proof(acme: Path) -> None:
    done = flagperf(acme, "check", *WORDS)
    assert (done.returncode, done.stdout) == (
        2,
        "network_hook:        smaller.factored\n"
        "network:             another network than the case's: fc.weight is not there, the case has [10, 2048]; "
        "6 parameters and buffers differ\n",
    ), done.stderr
    assert not (acme / "vendors/acme/proofs").exists()


@pytest.mark.slow
@pytest.mark.torch
def test_its_closed_run_is_invalid(acme: Path) -> None:
    done = flagperf(acme, *WORDS, "size=tiny", "max_steps=2", "num_workers=0", "run_name=run", "division=closed")
    assert done.returncode == 5, done.stdout + done.stderr
    path = acme.parent / "result/run/resnet50-pytorch-A1x1x1/round1/result.json"
    result = json.loads(path.read_text())
    unshown, network, *_ = result["reasons"]
    assert result["verdict"] == "INVALID"
    assert unshown == f"nothing shows that the vendor's own code does what the case does; a proof: {NO_PROOF}"
    assert network.startswith(f"another network than the case's: {OTHER}; ")


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
            ("glm",),
            "check takes a vendor, a case, or both",
            "flagperf check vendor=NAME [model=CASE OVERRIDES…]",
            id="neither",
        ),
    ],
)
def test_refused(acme: Path, words: tuple[str, ...], problem: str, advice: str) -> None:
    done = flagperf(acme, "check", *words)
    assert done.returncode == 2
    assert problem in done.stderr and advice in done.stderr
