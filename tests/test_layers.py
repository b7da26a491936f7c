"""The launcher never imports torch. Who may import whom is told by the contracts in pyproject.toml."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["--help"], id="help"),
        pytest.param(["list"], id="list"),
        pytest.param(
            ["model=glm", "vendor=nvidia", "hardware=A100", "nnodes=2", "nproc=8", "dry_run=true"], id="dry run"
        ),
        pytest.param(["model=gml"], id="refusal"),
        pytest.param(["data", "check", "model=glm", "data_dir=/"], id="data check"),
    ],
)
def test_the_launcher_never_imports_torch(argv: list[str]) -> None:
    program = (
        "import atexit, sys\n"
        "heavy = ('torch', 'asyncssh', 'docker', 'pynvml', 'jinja2')\n"
        "atexit.register(lambda: print('imported:', [name for name in heavy if name in sys.modules]))\n"
        "from flagperf.cli.main import run_command\n"
        "run_command(sys.argv[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"
