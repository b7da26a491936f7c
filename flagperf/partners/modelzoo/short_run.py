"""Runs the command of a model folder for a few steps, in a copy of the folder, and finds the log that it wrote."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flagperf.errors import ConfigError
from flagperf.hosts import guard
from flagperf.partners.modelzoo.dllogger_log import Log, is_log, read_log

GRACE = 20.0  # seconds between SIGTERM and SIGKILL of a run that takes too long
LAST = 12  # lines of the output in a fault
NOT_COPIED = shutil.ignore_patterns(".git", "__pycache__")


@dataclass(frozen=True)
class ShortRun:
    """How a short run ended."""

    status: int | None  # exit status; None: the run was stopped after its time
    seconds: float
    last_lines: str
    log_name: str = ""  # of the log, below the folder
    log: Log | None = None


def short_run(folder: Path, argv: Sequence[str], limit: float) -> ShortRun:
    """Run a command in a copy of the folder, for at most `limit` seconds. No process of it outlives this call.

    Raises:
        ConfigError: the folder cannot be copied.
    """
    with tempfile.TemporaryDirectory(prefix="flagperf-modelzoo-") as scratch:
        copy, output = Path(scratch) / folder.name, Path(scratch) / "output"
        try:
            shutil.copytree(folder, copy, symlinks=True, ignore=NOT_COPIED, copy_function=_copy)
        except OSError as error:  # shutil.Error is one
            raise ConfigError("the folder cannot be copied", given=folder, advice=str(error)) from None
        before, began = _stamps(copy), time.monotonic()
        status = _run(argv, copy, output, limit)
        seconds = time.monotonic() - began
        last = "\n".join(output.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST:])
        after = _stamps(copy)
        new = [path for path, stamp in after.items() if before.get(path) != stamp]
        logs = sorted((path for path in new if is_log(path)), key=lambda path: after[path])
        if not logs:
            return ShortRun(status, seconds, last)
        return ShortRun(status, seconds, last, str(logs[-1].relative_to(copy)), read_log(logs[-1]))


def _copy(source: str, target: str) -> None:
    """Copy a file. Another user's setuid file would become one of the user who copies it."""
    shutil.copyfile(source, target)
    Path(target).chmod(Path(source).stat().st_mode & 0o777)


def _stamps(folder: Path) -> dict[Path, int]:
    """File → time of its last change, in ns."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def _run(argv: Sequence[str], folder: Path, output: Path, limit: float) -> int | None:
    """The exit status, as a shell reports it; None where the time was up. Ctrl-C also ends the run."""
    command = [sys.executable, "-I", "-S", guard.__file__, str(GRACE), *argv]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            process.stdin.close()  # type: ignore[union-attr]  # this ends the guard, with all that it started
            process.wait()
    return status if status >= 0 else 128 - status
