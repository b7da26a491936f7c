"""The folder for the compiled code of torch.compile, which later processes load. Only this user can write to it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from flagperf.errors import ConfigError

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
OTHERS = 0o022  # write permissions of group and others


def use_own_compile_cache() -> None:
    """Choose a folder of this user. Another user could have made PyTorch's default folder, whose name is known.

    Raises:
        ConfigError: another user has made the chosen folder, or can write to it.
    """
    if VARIABLE in os.environ:
        return
    folder = Path(tempfile.gettempdir(), f"flagperf-torchinductor-{os.getuid()}")
    with suppress(FileExistsError):  # by another rank, or another run
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & OTHERS:
        problem = "another user could put code into the folder of torch.compile"
        raise ConfigError(problem, where=str(folder), advice=f"remove it, or name another folder in {VARIABLE}")
    os.environ[VARIABLE] = str(folder)
