"""Forwards a unix socket of a host to this machine, through the ssh connection to the host.

asyncssh's own forwarding has no limit on memory: if the reader here is slower than the host, asyncssh keeps the rest,
such as 20 GB of an image that goes from one host to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

import asyncssh

from flagperf.hosts.sockets import served

BLOCK = 2**22  # bytes of one read: more than asyncssh's window for data that nobody read, so that each read empties it
LIMIT = 2**16  # bytes of a client here that wait for the host: asyncio's own limit


@contextlib.asynccontextmanager
async def forwarded(connection: asyncssh.SSHClientConnection, local: str, path: str) -> AsyncIterator[None]:
    """Meanwhile the socket `local` of this machine leads to the socket `path` of the host.

    Raises:
        OSError: the socket cannot be made.
    """
    async with served(local, partial(_serve, connection, path), LIMIT):
        yield


async def _serve(
    connection: asyncssh.SSHClientConnection, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Join a client here with the socket of the host, until one of both closes. Without a socket there, close it."""
    with contextlib.closing(writer), contextlib.suppress(OSError, asyncssh.Error):
        from_host, to_host = await connection.open_unix_connection(path)
        with contextlib.closing(to_host):
            await asyncio.gather(_copy(reader, to_host), _copy(from_host, writer))


async def _copy(
    source: asyncio.StreamReader | asyncssh.SSHReader[bytes], target: asyncio.StreamWriter | asyncssh.SSHWriter[bytes]
) -> None:
    """Send the incoming bytes on, as fast as the other side reads them, and then their end."""
    while data := await source.read(BLOCK):
        target.write(data)
        await target.drain()
    target.write_eof()
