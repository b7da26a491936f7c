"""The list of a case's full data: the required files, and of a given data_dir each file with size and SHA-256."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flagperf.config.parts.data_layout import DATA_DIR, check_layout
from flagperf.config.schema.values import JobConfig
from flagperf.contract.digest import sha256_of

SAY_EVERY = 10.0  # seconds

Say = Callable[[str], None]


def full_data(job: JobConfig, say: Say) -> dict[str, Any]:
    """The content of data.json. Times and paths of this machine are left out.

    Raises:
        ConfigError: data_dir lacks files of the case.
    """
    stated = {
        "name": job.data.get("name"),
        "tree": (job.data.get("tree") or "").splitlines(),
        "require": dict(job.data.get("require", {})),
        "extent": dict(job.data.get("extent") or {}),
    }
    folder = Path(job.data_dir)
    if job.data_dir == DATA_DIR or not folder.is_dir():
        return stated
    check_layout(job.data, folder)
    return {**stated, "files": list(_files(folder, say))}


def _files(folder: Path, say: Say) -> Iterator[dict[str, Any]]:
    """Each file below a folder, with links followed, sorted by name."""
    paths = sorted(Path(root, name) for root, _, names in os.walk(folder, followlinks=True) for name in names)
    last_message, size = time.monotonic(), 0
    for number, path in enumerate(paths):
        if time.monotonic() - last_message > SAY_EVERY:
            last_message = time.monotonic()
            say(f"data: {number:,} of {len(paths):,} files, {size / 2**30:,.1f} GiB hashed")
        size += path.stat().st_size
        name = path.relative_to(folder).as_posix()
        yield {"name": name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
