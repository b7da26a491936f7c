"""Ranks run source files: a cached file of the same size and time, or one without a source, is not looked at."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.contract.sent_code import files
from flagperf.trainer.start import uncached

ROOT = Path(uncached.__file__).parents[3]
SOURCE = "print('the source')\n"


def cached(folder: Path, name: str) -> Path:
    """A module whose cache holds other code, by all that Python looks at one of it."""
    source, other = folder / f"{name}.py", folder / "other.txt"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(SOURCE)
    if source.parent.name == "flagperf":
        source.with_name("__init__.py").touch()  # as installed ones, it comes before others of its name
    other.write_text("print('the cache')\n")
    cache = Path(importlib.util.cache_from_source(str(source)))
    py_compile.compile(str(other), cfile=str(cache), doraise=True)
    data, stat = bytearray(cache.read_bytes()), source.stat()
    data[8:16] = struct.pack("<II", int(stat.st_mtime), stat.st_size)
    cache.write_bytes(data)
    return cache


def run(folder: Path, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder / "site-packages")}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder, env=env, check=False)
    return done.stdout or done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param("mine", ("the cache\n", "the source\n"), id="a module"),
        pytest.param("package/mine", ("the cache\n", "the source\n"), id="of a package"),
        pytest.param("site-packages/installed", ("the cache\n", "the cache\n"), id="an installed one keeps its cache"),
        pytest.param("site-packages/flagperf/mine", ("the cache\n", "the source\n"), id="flagperf, installed"),
    ],
)
def test_which_caches_are_read(tmp_path: Path, name: str, told: tuple[str, str]) -> None:
    cached(tmp_path, name)
    module = name.replace("site-packages/", "").replace("/", ".")
    assert (run(tmp_path, "-m", module), run(tmp_path, uncached.__file__, module)) == told


def test_code_without_a_source_is_none(tmp_path: Path) -> None:
    cached(tmp_path, "mine").rename(tmp_path / "alone.pyc")
    assert run(tmp_path, "-m", "alone") == "the cache\n"
    assert run(tmp_path, uncached.__file__, "alone") == "ImportError: No module named alone"
    assert [path.name for path in files(tmp_path)] == ["mine.py", "other.txt"]  # what is sent, and hashed


COMPILES = """
import json.tool, sys, package.mine
loaders = [type(module.__loader__).__name__ for module in (json.tool, package.mine)]
for path in sys.stdin.read().split():
    with open(path, encoding="utf-8") as file:
        compile(file.read(), path, "exec")
print(*loaders)
"""


def newest() -> Path:
    """The newest Python 3 that starts here: this one, or one on the path or of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [*map(Path, os.environ["PATH"].split(os.pathsep)), *pyenv.glob("versions/*/bin")]
    known = [path for folder in folders for path in folder.glob("python3.*") if re.fullmatch(r"3\.\d+", path.name[6:])]
    found = {}
    for path in [Path(sys.executable), *known]:
        words = [str(path), "-c", "import sys; print(*sys.version_info[:3])"]
        if version := subprocess.run(words, capture_output=True, text=True, check=False).stdout:
            found.setdefault(tuple(map(int, version.split())), path)
    return found[max(found)]


@pytest.mark.long
def test_the_newest_python_here_imports_and_compiles_what_ranks_run(tmp_path: Path) -> None:
    """Without warnings, and without torch, which it need not have."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package/mine.py").touch()
    (tmp_path / "all.py").write_text(COMPILES)
    sources = [str(path) for name in ("flagperf", "cases") for path in (ROOT / name).rglob("*.py")]
    done = subprocess.run(
        [str(newest()), "-W", "error", uncached.__file__, "all"],
        input="\n".join(sources),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("SourceFileLoader Uncached\n", "")
