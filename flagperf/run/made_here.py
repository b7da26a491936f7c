"""Which files of result folders this user's own flagperf wrote: those that a later command obeys.

Whoever gives a folder away can write anything into it, so nothing in a folder shows who made it. The record lies
outside: a file of hashes in the user's state folder, one for each file that was written.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

RECORD = "flagperf/made"  # in the state folder: a line for each file
OTHERS = 0o022  # write permissions of group and others


def write(run: Path, path: Path, content: bytes) -> None:
    """Write a file of a run's folder, and record that this user's flagperf wrote it."""
    path.write_bytes(content)
    with suppress(OSError, RuntimeError):  # no home, or a full one: the folder is taken for another's
        place = _record()
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "a") as file:
            file.write(f"{_line(run, path, content)}\n")


def foreign(run: Path, paths: Iterable[Path]) -> list[Path]:
    """Which of these files of a run's folder this user's flagperf did not write, or not as they are now."""
    known = _known()
    return [path for path in paths if not path.is_file() or _line(run, path, path.read_bytes()) not in known]


def _line(run: Path, path: Path, content: bytes) -> str:
    name = path.relative_to(run).as_posix().encode("utf-8", "surrogateescape")
    return hashlib.sha256(name + b"\0" + content).hexdigest()


def _known() -> set[str]:
    """The lines of the record; none where another user could have written them."""
    with suppress(OSError, RuntimeError):
        place = _record()
        with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            own = [os.fstat(file.fileno()), place.parent.stat()]
            if all(about.st_uid == os.geteuid() and not about.st_mode & OTHERS for about in own):
                return set(file.read().split()) if stat.S_ISREG(own[0].st_mode) else set()
    return set()


def _record() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or ""
    return (Path(state) if state.startswith("/") else Path.home() / ".local/state") / RECORD
