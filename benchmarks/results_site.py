"""How long `flagperf site` takes for many bundles, on all cores of this machine.

    python benchmarks/results_site.py [BUNDLES]

The bundles are copies of the recorded runs of tests/data/runs. Each copy has a name and a command of its own, and so
a statement of its own; each is verified and has its own page in both languages.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from baseline import FLAGPERF
from limits import say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from recorded import recorded_run

from flagperf.bundle import archive
from flagperf.bundle.contents import STATEMENT
from flagperf.bundle.statement import statement
from flagperf.run import command_file

LIMIT = 60.0  # seconds of 1,000 bundles
RUNS = ("two-rounds", "sweep")


def bundles(folder: Path, count: int) -> None:
    """Write bundles that differ in their names and commands."""
    runs = [recorded_run(folder / "runs", name) for name in RUNS]
    contents = [{path.relative_to(run).as_posix(): path.read_bytes() for path in _files(run)} for run in runs]
    for number in range(count):
        _write(folder / f"{number}.tar.zst", f"run{number}", number, contents[number % len(runs)])


def _write(path: Path, name: str, number: int, content: dict[str, bytes]) -> None:
    command = {"overrides": [f"seed={number}"], "multirun": False, "config_dirs": [], "folder": "/", "began": number}
    files = {**content, command_file.FILE: json.dumps(command).encode()}
    hashes = {file: hashlib.sha256(data).hexdigest() for file, data in files.items()}
    with archive.create(path) as out:
        for file, data in sorted(files.items()):
            out.add(f"{name}/{file}", data)
        out.add(f"{name}/{STATEMENT}", statement(hashes, {"hidden": {"values": 0}}))


def _files(run: Path) -> Iterator[Path]:
    yield from (path for path in run.rglob("*") if path.is_file())


def main(arguments: Sequence[str]) -> int:
    count = int(arguments[0]) if arguments else 1000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "runs").mkdir()
        bundles(folder, count)
        began = time.perf_counter()
        subprocess.run([*FLAGPERF, "site", str(folder), f"into={folder / 'public'}"], check=True)
        seconds = time.perf_counter() - began
    say(f"a site of {count} bundles", seconds, LIMIT * count / 1000, "s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
