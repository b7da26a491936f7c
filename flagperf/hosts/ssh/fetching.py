"""Fetches files of a host by sftp: regular files only. Links are not followed, and endless files are not read."""

from __future__ import annotations

import stat
from pathlib import Path

import asyncssh

from flagperf.hosts.awake import Pulse
from flagperf.hosts.transport import DEEP, DEEPEST, LINKS, UNREADABLE, Listing

# Answers of sftp about a folder without rights, or one that was removed meanwhile.
UNLISTED = (asyncssh.SFTPPermissionDenied, asyncssh.SFTPFailure, asyncssh.SFTPNoSuchFile)


def is_regular(about: asyncssh.SFTPAttrs) -> bool:
    """Whether a path is a regular file. The attributes must be those of the path itself, not of a link's target."""
    return stat.S_ISREG(about.permissions or 0)


async def fetch(files: asyncssh.SFTPClient, source: str, target: Path, pulse: Pulse) -> None:
    """Copy a regular file. Missing parents are created. `pulse` beats as long as data moves."""
    if not is_regular(await files.lstat(source)):
        raise asyncssh.SFTPFailure(f"{source} is no regular file")
    target.parent.mkdir(parents=True, exist_ok=True)
    # without its permissions: a setuid file of root would be one here
    await files.get(source, target, progress_handler=pulse.beat)


async def list_below(files: asyncssh.SFTPClient, top: str, pulse: Pulse) -> Listing:
    """What lies below a folder. `pulse` beats after each folder."""
    await files.lstat(top)  # raises where there is no such folder
    found: dict[str, int] = {}
    folders, left, waiting = list[str](), dict[str, list[str]](), [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = [entry async for entry in files.scandir(f"{top}/{folder}" if folder else top)]
        except UNLISTED:
            left.setdefault(UNREADABLE, []).append(folder or top)
            continue
        pulse.beat()
        for entry in entries:
            name = str(entry.filename)
            if name in (".", "..") or "/" in name:
                continue
            path, mode = f"{folder}/{name}".lstrip("/"), entry.attrs.permissions or 0
            if stat.S_ISREG(mode):
                found[path] = entry.attrs.size or 0
            elif not stat.S_ISDIR(mode):
                left.setdefault(LINKS, []).append(path)
            elif path.count("/") >= DEEPEST:
                left.setdefault(DEEP, []).append(path)
            else:
                folders.append(path)
                waiting.append(path)
    return Listing(dict(sorted(found.items())), sorted(folders), left)
