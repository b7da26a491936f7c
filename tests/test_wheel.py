"""The wheel alone is enough: conf/, cases and vendors are in it, and the launcher needs no PyTorch."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from flagperf import __version__
from flagperf.cli.commit import commit

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def flagperf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, installed from a wheel into an environment that has nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT], check=True)
    venv.create(folder / "env", with_pip=True)
    (wheel,) = folder.glob("flagperf-*.whl")
    subprocess.run([folder / "env/bin/python", "-m", "pip", "install", "-q", wheel], check=True)
    return folder / "env/bin/flagperf"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--help"], "usage: flagperf", id="help"),
        pytest.param(["list"], "resnet50", id="list"),
        pytest.param(["dry_run=true", "nproc=2"], "flagperf.trainer", id="dry run"),
        pytest.param(["model=glm", "vendor=nvidia", "hardware=A100", "dry_run=true"], "A100x1x1", id="tuning"),
    ],
)
def test_wheel_runs(flagperf: Path, tmp_path: Path, words: list[str], said: str) -> None:
    done = subprocess.run([flagperf, *words], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert said in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a checkout of git")
def test_the_wheel_knows_its_commit(flagperf: Path, tmp_path: Path) -> None:
    installed = subprocess.run([flagperf, "--version"], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert installed.stdout == f"flagperf {__version__} {commit()}\n"


@pytest.mark.slow
@pytest.mark.parametrize("argv", [("uvx", "--from"), ("pipx", "run", "--spec")], ids=["uvx", "pipx"])
def test_it_runs_without_an_installation(
    flagperf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("PIPX_HOME", str(tmp_path / "pipx"))
    (wheel,) = flagperf.parents[2].glob("flagperf-*.whl")
    command = [Path(sys.executable).with_name(argv[0]), *argv[1:], wheel, "flagperf", "dry_run=true", "nproc=2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "flagperf.trainer" in done.stdout, done.stderr


@pytest.mark.slow
def test_the_name_cases_is_left_to_others(flagperf: Path, tmp_path: Path) -> None:
    (packages,) = flagperf.parents[1].glob("lib/python*/site-packages")
    assert not (packages / "cases").exists()
    ask = "import flagperf, cases.statements; print(cases.statements.__file__)"
    done = subprocess.run(
        [flagperf.with_name("python"), "-c", ask], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert (done.stdout, done.stderr) == (f"{packages}/flagperf/cases/statements.py\n", "")


@pytest.mark.slow
def test_the_scripts_that_hosts_run_are_in_the_wheel(flagperf: Path) -> None:
    (installed,) = flagperf.parents[1].glob("lib/python*/site-packages/flagperf")
    scripts = [{path.relative_to(folder) for path in folder.rglob("*.sh")} for folder in (installed, ROOT / "flagperf")]
    assert scripts[0] == scripts[1] != set()


@pytest.mark.slow
def test_the_pages_of_the_cases_are_in_the_wheel(flagperf: Path, tmp_path: Path) -> None:
    subprocess.run([flagperf, "docs", "model", "model=resnet50", "into=."], cwd=tmp_path, check=True)
    page = (tmp_path / "benchmarks" / "resnet50" / "README.md").read_text(encoding="utf-8")
    assert "从零开始训练 ResNet-50" in page


@pytest.mark.slow
def test_training_without_torch_says_what_to_install(flagperf: Path, tmp_path: Path) -> None:
    done = subprocess.run([flagperf, "max_steps=1"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "has no module torch\n  do:      pip install 'flagperf[train]'" in done.stderr
    assert done.returncode == 3
