"""Where torch.compile keeps compiled code, which later processes load: a folder that only this user can write to."""

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
    """PyTorch's own choice is a name in the temporary folder that everybody knows, and could make before.

    Raises:
        ConfigError: another user has made the folder that is chosen here.
    """
    if VARIABLE in os.environ:
        return
    folder = Path(tempfile.gettempdir(), f"flagperf-torchinductor-{os.getuid()}")
    with suppress(FileExistsError):  # by another rank, or another run
        folder.mkdir(mode=0o700)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & OTHERS:
        problem = "another user could put code into the folder of torch.compile"
        raise ConfigError(problem, where=str(folder), advice=f"remove it, or name another folder in {VARIABLE}")
    os.environ[VARIABLE] = str(folder)
