"""Records the files of result folders that this user's own flagperf wrote. Later commands trust only these files.

Nothing inside a folder can prove its author, because every author can write anything. So the record is outside: a file
of hashes in the user's state folder, one hash for each written file.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from flagperf.contract.regular import LARGEST_TEXT, write_atomically
from flagperf.errors import ConfigError
from flagperf.user import state_folder

RECORD = "made"  # in the state folder: a line for each file
OTHERS = 0o022  # write permissions of group and others


def write(run: Path, path: Path, content: bytes) -> None:
    """Write a file of a run's folder, and record that this user's flagperf wrote it."""
    write_atomically(path, content)
    with suppress(OSError, ConfigError):  # no home folder, or a full disk: the run's folder then counts as foreign
        record = _record_path()
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "a") as file:
            file.write(f"{_line(run, path, content)}\n")


def foreign(run: Path, paths: Iterable[Path]) -> list[Path]:
    """The files of a run's folder that are not in the record with their current content."""
    recorded = _recorded()
    return [path for path in paths if not _is_small(path) or _line(run, path, path.read_bytes()) not in recorded]


def _is_small(path: Path) -> bool:
    """Whether a path is a file of a size that flagperf writes."""
    return path.is_file() and path.stat().st_size <= LARGEST_TEXT


def _line(run: Path, path: Path, content: bytes) -> str:
    name = path.relative_to(run).as_posix().encode("utf-8", "surrogateescape")
    return hashlib.sha256(name + b"\0" + content).hexdigest()


def _recorded() -> set[str]:
    """The lines of the record; none if another user could have written the record."""
    with suppress(OSError, ConfigError):
        record = _record_path()
        with os.fdopen(os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            stats = [os.fstat(file.fileno()), record.parent.stat()]
            if all(status.st_uid == os.geteuid() and not status.st_mode & OTHERS for status in stats):
                return set(file.read().split()) if stat.S_ISREG(stats[0].st_mode) else set()
    return set()


def _record_path() -> Path:
    return state_folder() / RECORD
