"""Forwards a unix socket of a node to this machine, by requests to the node's agent."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

from flagperf.errors import HostError
from flagperf.hosts.sockets import served, socket_folder
from flagperf.schedulers.slurm.agent import encoded
from flagperf.schedulers.slurm.channel import Channel

PIECE = 1 << 18  # most bytes of a file or stream in one request
CLOSED = 5.0  # seconds for a node to end a stream


@asynccontextmanager
async def socket_of(channel: Channel, path: str, numbers: Iterator[int]) -> AsyncIterator[str]:
    """A socket of this machine that leads to the node's socket `path`, while the block runs.

    Args:
        numbers: unique numbers for the streams of this channel.

    Raises:
        HostError: the node is lost.
    """
    if channel.lost is not None:
        raise channel.lost
    with socket_folder() as folder:
        local = f"{folder}/socket"
        async with served(local, partial(_stream, channel, numbers, path), PIECE):
            yield local


async def _stream(
    channel: Channel,
    numbers: Iterator[int],
    path: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """One connection, until the node or a failure ends it. Users of the socket learn the reason in other ways."""
    number = next(numbers)
    try:
        with contextlib.suppress(OSError, HostError):
            await channel.ask("connect", number=number, path=path)
            sending = asyncio.create_task(_send(channel, number, reader))
            try:
                await _receive(channel, number, writer)
            finally:
                sending.cancel()
    finally:
        writer.close()
        with contextlib.suppress(OSError, HostError, asyncio.TimeoutError):
            await asyncio.wait_for(channel.ask("close", number=number), CLOSED)


async def _send(channel: Channel, number: int, reader: asyncio.StreamReader) -> None:
    """Send the data of this machine to the node."""
    with contextlib.suppress(OSError, HostError):  # the other direction ends, too
        while data := await reader.read(PIECE):
            await channel.ask("send", number=number, data=encoded(data))
        await channel.ask("send", number=number, data="")


async def _receive(channel: Channel, number: int, writer: asyncio.StreamWriter) -> None:
    while data := base64.b64decode((await channel.ask("receive", number=number, size=PIECE))["data"]):
        writer.write(data)
        await writer.drain()
