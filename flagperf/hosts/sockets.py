"""Forwarded sockets of this machine, and their folders. A launcher removes the folders of killed launchers."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

NEW, USED = "flagperf-new-", "flagperf-socket-"
LONGEST = 72  # characters of a folder for temporary files; a socket's path has at most 107


@contextmanager
def socket_folder() -> Iterator[Path]:
    """A folder that only this user can open. It is locked while this process lives, and removed after the block."""
    new = Path(tempfile.mkdtemp(prefix=NEW, dir=_place()))
    with _open(new) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Other launchers ignore the folder until it has its new name.
        folder = new.rename(new.with_name(new.name.replace(NEW, USED, 1)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def served(
    path: str, serve: Callable[[StreamReader, StreamWriter], Coroutine[Any, Any, None]], limit: int
) -> AsyncIterator[None]:
    """Serve each connection to a socket of this machine, while the block runs. Its end cancels them.

    Args:
        limit: bytes that a connection may hold before a reader takes them.

    Raises:
        OSError: the socket cannot be made.
    """
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: StreamReader, writer: StreamWriter) -> None:
        connection = asyncio.create_task(serve(reader, writer))
        connections.add(connection)
        connection.add_done_callback(connections.discard)

    server = await asyncio.start_unix_server(connected, path, limit=limit)
    try:
        yield
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def remove_dead_socket_folders() -> None:
    """Remove this user's socket folders that no process has locked."""
    for folder in _place().glob(f"{USED}*"):
        with suppress(OSError), _open(folder) as fd:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)


def _place() -> Path:
    """The folder for temporary files; /tmp where its path is too long for sockets."""
    folder = tempfile.gettempdir()
    return Path(folder if len(os.fsencode(folder)) <= LONGEST else "/tmp")


@contextmanager
def _open(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)
