"""Fetches files of a host by sftp: regular files only. Links are not followed, and endless files are not read."""

from __future__ import annotations

import stat
from pathlib import Path

import asyncssh

from flagperf.hosts.awake import Pulse


def is_regular(about: asyncssh.SFTPAttrs) -> bool:
    """Whether a path is a regular file. The attributes must be those of the path itself, not of a link's target."""
    return stat.S_ISREG(about.permissions or 0)


async def fetch(files: asyncssh.SFTPClient, source: str, target: Path, pulse: Pulse, name: str = "") -> list[str]:
    """Copy a file, or a folder with its content. Missing parents are created.

    Args:
        pulse: beats as long as files move.
        name: path of the source, relative to the folder of the first call.

    Returns the names of the files that were left out.
    """
    about = await files.lstat(source)
    pulse.beat()
    if is_regular(about):
        target.parent.mkdir(parents=True, exist_ok=True)
        # without its permissions: a setuid file of root would be one here
        await files.get(source, target, progress_handler=pulse.beat)
        return []
    if not stat.S_ISDIR(about.permissions or 0):
        return [name or source]
    target.mkdir(parents=True, exist_ok=True)
    left_out = []
    for entry in sorted(str(name) for name in await files.listdir(source)):
        if entry not in (".", "..") and "/" not in entry:
            left_out += await fetch(files, f"{source}/{entry}", target / entry, pulse, f"{name}/{entry}".lstrip("/"))
    return left_out
