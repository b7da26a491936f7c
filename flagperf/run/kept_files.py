"""Cleans the files of a round in the result folder: no secrets, and no permissions beyond the user's umask."""

from __future__ import annotations

import errno
import logging
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from flagperf.contract.regular import below, beside
from flagperf.plain import plain
from flagperf.secret import Mask

SHOWN = 5  # most names in a warning
UNREADABLE = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOENT)
SETID = stat.S_ISUID | stat.S_ISGID

log = logging.getLogger(__name__)


def without_secrets(folder: Path, mask: Mask) -> None:
    """Replace secrets in the files of a folder by ***. A warning names files that this user cannot read."""
    files = (Path(entry.path) for entry in below(folder) if entry.is_file(follow_symlinks=False))
    if unread := [path for path in files if not _is_hidden(path, mask)]:
        shown = ", ".join(plain(str(path.relative_to(folder))) for path in unread[:SHOWN])
        log.warning("%d files of %s cannot be read; they may hold secrets: %s", len(unread), folder, shown)


def _is_hidden(path: Path, mask: Mask) -> bool:
    """Hide secrets in a file. Returns false where the file cannot be read."""
    try:
        try:
            mask.file(path)
        except PermissionError:
            mode = stat.S_IMODE(path.lstat().st_mode)
            try:
                path.chmod(mode | stat.S_IRUSR | stat.S_IWUSR)  # an own file without the rights
                mask.file(path)
                path.chmod(mode)
            except PermissionError:  # a file of another user, such as a container's: replace the file by a copy
                with beside(path) as copy:
                    shutil.copyfile(path, copy)
                    mask.file(copy)
                    copy.replace(path)
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        return False
    return True


def by_umask(*folders: Path) -> None:
    """Remove permissions that the user's umask forbids, and setuid and setgid from files.

    Files that come from another host have no permissions of that host. Ranks on this machine, in a container mostly as
    root, write into the folder itself.
    """
    forbidden = _umask()
    for folder in folders:
        for path in [folder, *(Path(entry.path) for entry in below(folder))] if folder.is_dir() else ():
            try:
                about = path.lstat()
            except OSError:  # its folder cannot be entered, or its path is too long
                continue
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
