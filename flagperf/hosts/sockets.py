"""Folders of this machine with forwarded sockets. A launcher removes the folders of killed launchers."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NEW, USED = "flagperf-new-", "flagperf-socket-"


@contextmanager
def socket_folder() -> Iterator[Path]:
    """A folder that only this user can open. It is locked while this process lives, and removed after the block."""
    new = Path(tempfile.mkdtemp(prefix=NEW))
    with _open(new) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Other launchers ignore the folder until it has its new name.
        folder = new.rename(new.with_name(new.name.replace(NEW, USED, 1)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_dead_socket_folders() -> None:
    """Remove this user's socket folders that no process has locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{USED}*"):
        with suppress(OSError), _open(folder) as fd:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)


@contextmanager
def _open(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)
