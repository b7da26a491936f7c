"""`make licenses`: which licenses of installed packages are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GPL = "GNU General Public License v3 (GPLv3)"


@pytest.mark.pip
@pytest.mark.parametrize(
    ("licenses", "said"),
    [
        pytest.param(("MIT License",), "", id="allowed"),
        pytest.param((GPL,), f"fail-on license {GPL} was found for package extra:1\n", id="refused"),
        pytest.param(
            ("MIT License", GPL), f"fail-on license {GPL} was found for package extra:1\n", id="beside another"
        ),
        pytest.param((), "license UNKNOWN not in allow-only licenses was found for package extra:1\n", id="none"),
    ],
)
def test_of_an_installed_package(tmp_path: Path, licenses: tuple[str, ...], said: str) -> None:
    """The other packages of this environment have allowed licenses."""
    classifiers = "".join(f"Classifier: License :: OSI Approved :: {name}\n" for name in licenses)
    (tmp_path / "extra-1.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: extra\nVersion: 1\n{classifiers}"
    (tmp_path / "extra-1.dist-info/METADATA").write_text(metadata)
    argv = [Path(sys.executable).with_name("pip-licenses"), "--output-file", tmp_path / "licenses.txt"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (int(bool(said)), said)
