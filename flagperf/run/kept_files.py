"""Cleans the files of a round in the result folder: no secrets, and no permissions beyond the user's umask."""

from __future__ import annotations

import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from flagperf.contract.regular import beside
from flagperf.secret import Mask

SETID = stat.S_ISUID | stat.S_ISGID


def without_secrets(folder: Path, mask: Mask) -> None:
    """Replace secrets in the files of a folder by ***."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            try:
                mask.file(path)
            except PermissionError:  # a file of another user, such as a container's: replace the file by a copy
                with beside(path) as copy:
                    shutil.copyfile(path, copy)
                    mask.file(copy)
                    copy.replace(path)


def by_umask(*folders: Path) -> None:
    """Remove permissions that the user's umask forbids, and setuid and setgid from files.

    Files that come from another host have no permissions of that host. Ranks on this machine, in a container mostly as
    root, write into the folder itself.
    """
    forbidden = _umask()
    for folder in folders:
        for path in [folder, *folder.rglob("*")] if folder.is_dir() else ():
            about = path.lstat()
            taken = about.st_mode & (forbidden | (SETID if stat.S_ISREG(about.st_mode) else 0))
            if not taken or stat.S_ISLNK(about.st_mode):
                continue
            try:
                path.chmod(stat.S_IMODE(about.st_mode) & ~taken)
            except PermissionError:  # another user's file, in a folder with the right permissions
                if taken & SETID:
                    with suppress(PermissionError), beside(path) as copy:
                        shutil.copyfile(path, copy)
                        copy.replace(path)


def _umask() -> int:
    """The umask of this process. os.umask can return it only together with a change."""
    match = re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(match[1], 8) if match else 0
