"""What stays of a round in the result folder: no secret, and nothing more than the user's umask lets others read."""

from __future__ import annotations

import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from flagperf.secret import Mask

COPY = ".copy"  # end of the name of a copy, while it takes the place of a file


def without_secrets(folder: Path, mask: Mask) -> None:
    """Write *** over the secrets that were printed to the files of a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            try:
                mask.file(path)
            except PermissionError:  # made by another user, such as a container's: ours from now on
                copy = path.with_name(path.name + COPY)
                shutil.copyfile(path, copy)
                mask.file(copy)
                copy.replace(path)


def by_umask(*folders: Path) -> None:
    """Take from files and folders the permissions that the user's umask keeps back; they came with those of a host."""
    kept_back = _umask()
    for folder in folders:
        for path in [folder, *folder.rglob("*")] if folder.is_dir() else ():
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & kept_back and not path.is_symlink():
                with suppress(PermissionError):  # another user's, in a folder of ours that has the right ones
                    path.chmod(mode & ~kept_back)


def _umask() -> int:
    """The umask of this process, which os.umask could only tell by changing it."""
    found = re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found else 0
