"""The packages that training processes import: the files that are sent to a host, and a hash that identifies them.

The launcher and each rank compute the identity of the code on their own disk, by the same function.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from flagperf.errors import FlagperfError

PACKAGES = ("flagperf", "cases")  # training processes import them
BEFORE_SCRIPT = "FLAGPERF_BEFORE_SCRIPT"  # variable: PYTHONPATH before a vendor's script
# In the package of a wheel, and not of its code. The cases are sent beside flagperf, as in a checkout.
NO_CODE = ("cases", "commit.txt", "conf", "docs", "vendors")


def files(folder: Path, left_out: Collection[str] = ()) -> Iterator[Path]:
    """The files of a folder that are sent, a folder's own first, by name. `left_out`: names in the folder.

    Compiled code is not sent: ranks run the source files (`flagperf.trainer.start.uncached`).
    """
    for parent, folders, names in os.walk(folder):  # several times as fast as Path.rglob; each rank waits for it
        out = {"__pycache__", *left_out} if parent == str(folder) else {"__pycache__"}
        folders[:] = sorted(name for name in folders if name not in out)
        for name in sorted(names):
            path = Path(parent, name)
            if name not in out and path.suffix != ".pyc" and path.is_file():
                yield path


def package_folder(package: str) -> Path:
    """Where a package lies. Raises FlagperfError where it is not installed."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FlagperfError(f"the package {package} is not installed here, so that it cannot be sent to a host")
    return Path(next(iter(spec.submodule_search_locations)))


def identity(folder: Path) -> str:
    """16 hexadecimal digits of a SHA-256 over names and contents of a package's files that are sent."""
    hasher, start = hashlib.sha256(), len(f"{folder.as_posix()}/")
    for path in files(folder, NO_CODE):
        content = path.read_bytes()
        hasher.update(f"{path.as_posix()[start:]}\0{len(content)}\0".encode())
        hasher.update(content)
    return hasher.hexdigest()[:16]


@lru_cache(maxsize=None)
def identities() -> dict[str, str]:
    """Package → identity, computed once from the files on this machine."""
    return {package: identity(package_folder(package)) for package in PACKAGES}
