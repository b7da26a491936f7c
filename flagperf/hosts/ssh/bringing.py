"""Brings files of a host by sftp, one by one: regular ones, and nothing that leads elsewhere or never ends."""

from __future__ import annotations

import stat
from pathlib import Path

import asyncssh


def is_regular(about: asyncssh.SFTPAttrs) -> bool:
    """Whether that is a file, by what the server tells of the path itself."""
    return stat.S_ISREG(about.permissions or 0)


async def bring(files: asyncssh.SFTPClient, source: str, target: Path, name: str = "") -> list[str]:
    """Copy a file, or a folder with all below it; missing parents are made.

    Args:
        name: path of the source in the folder that is brought.

    Returns the names of what was left out.
    """
    about = await files.lstat(source)
    if is_regular(about):
        target.parent.mkdir(parents=True, exist_ok=True)
        await files.get(source, target, preserve=True)
        return []
    if not stat.S_ISDIR(about.permissions or 0):
        return [name or source]
    target.mkdir(parents=True, exist_ok=True)
    left = []
    for entry in sorted(str(one) for one in await files.listdir(source)):
        if entry not in (".", "..") and "/" not in entry:
            left += await bring(files, f"{source}/{entry}", target / entry, f"{name}/{entry}".lstrip("/"))
    return left
