"""Which modules of a rank count as foreign: those of no package of its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ASK = """
import json, sys
from flagperf.trainer.identity import software
print(json.dumps(sorted(module["module"] for module in software.foreign_modules(None, ()).values())))
"""


@pytest.mark.slow
@pytest.mark.pip
@pytest.mark.parametrize(
    ("maker", "foreign"),
    [
        pytest.param(["virtualenv==20.26.6", "--no-seed"], [], id="virtualenv"),
        pytest.param(["--from", "virtualenv==20.26.6", "python", "-m", "venv", "--without-pip"], ["_virtualenv"],
                     id="a module of this name in another environment"),
    ],
)  # fmt: skip
def test_the_module_of_virtualenv_belongs_to_its_environment(
    tmp_path: Path, maker: list[str], foreign: list[str]
) -> None:
    environment = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "uv"), "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([Path(sys.executable).with_name("uvx"), *maker, tmp_path / "env"], check=True, env=environment)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (packages / "_virtualenv.pth").write_text("import _virtualenv")
    (packages / "_virtualenv.py").touch()  # where virtualenv wrote none
    done = subprocess.run(
        [tmp_path / "env/bin/python", "-c", ASK], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == foreign


def test_a_way_through_an_installed_folder_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "evil.py").touch()
    library = sysconfig.get_paths()["stdlib"]
    way = f"{library}/{os.path.relpath(tmp_path.resolve(), os.path.realpath(library))}"
    ask = f"import sys; sys.path.insert(0, {way!r}); import evil\n{ASK}"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert "evil" in json.loads(done.stdout)
