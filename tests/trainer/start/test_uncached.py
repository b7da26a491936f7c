"""Ranks run source files: a cached file of the same size and time, or one without a source, is not looked at."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from flagperf.contract.sent_code import files
from flagperf.trainer.start import uncached

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
