"""The docker daemon of a host, through the docker SDK. The socket of another host is forwarded over ssh."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from flagperf.errors import HostError
from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Transport

if TYPE_CHECKING:
    from docker import DockerClient

SOCKET = "/var/run/docker.sock"
API_TIMEOUT = 60  # seconds that the daemon may take for an answer; waiting for a container has no such limit
THREADS = 3  # calls at one time, of which one waits for the container
RETRY = 0.3  # seconds between two attempts to reach a daemon that went away

LOOK_TIMEOUT = 10.0  # seconds
LOOK = shell(script(__file__, "look.sh"), SOCKET)
REASONS = {
    "absent": ("docker is not installed", "install docker there, or choose runtime=process"),
    "stopped": ("the docker daemon does not run", "start it there: systemctl start docker"),
    "forbidden": ("this user may not use docker", "add the user to the group docker there, or log in as another"),
}

T = TypeVar("T")


class DaemonError(HostError):
    """The host answers, its docker daemon does not."""

    lost = "docker daemon"


class NoDocker(DaemonError):
    """Docker is not installed there."""


class _Unreachable(Exception):
    """No connection to the daemon can be made."""


class DockerHost:
    """The daemon of one host. Used as `async with DockerHost(transport, patience) as docker:`.

    Args:
        patience: seconds for which a daemon that went away is tried again.
    """

    def __init__(self, transport: Transport, patience: float = 0.0) -> None:
        self.transport, self.host, self.patience = transport, transport.host, patience
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"docker-{transport.host}")
        self._connected = AsyncExitStack()
        self._client: DockerClient | None = None
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> DockerHost:
        try:
            await self.call(lambda client: client.ping())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Calls that still run end with an error."""
        await self._disconnect()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def call(self, work: Callable[[DockerClient], T], *, again: bool = True) -> T:
        """Do blocking work with the SDK's client in a thread.

        Args:
            again: whether the work may be done again when the connection drops in the middle of it.

        Raises:
            docker.errors.DockerException: the daemon refused.
            DaemonError: the daemon cannot be reached, although the host can.
            HostError: the host cannot be reached.
        """
        from docker.errors import APIError
        from requests.exceptions import RequestException

        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience
        while True:
            try:
                client = await self.client()
                return await loop.run_in_executor(self._threads, work, client)
            except APIError:
                raise
            except (_Unreachable, RequestException, OSError) as error:
                await self._disconnect()
                if loop.time() >= deadline or not again:
                    raise await self._why(error) from error
                await asyncio.sleep(RETRY)

    async def client(self) -> DockerClient:
        """The client, made again where the last one was given up."""
        from docker import DockerClient
        from docker.errors import DockerException

        async with self._connecting:
            if self._client is None:
                socket = await self._connected.enter_async_context(self.transport.unix_socket(SOCKET))
                make = partial(DockerClient, base_url=f"unix://{socket}", version="auto", timeout=API_TIMEOUT)
                try:
                    self._client = await asyncio.get_running_loop().run_in_executor(self._threads, make)
                except DockerException as error:
                    raise _Unreachable(str(error)) from error
            return self._client

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
        await self._connected.aclose()

    async def _why(self, error: BaseException) -> DaemonError:
        """Why a daemon does not answer."""
        if not isinstance(error, _Unreachable):
            with contextlib.suppress(_Unreachable):
                await self.client()
                problem, advice = f"the docker daemon dropped a call: {error}", "look into dockerd's log there"
                return DaemonError(self.host, problem, advice=advice)
        done = await self.transport.run(LOOK, timeout=LOOK_TIMEOUT)
        reason = done.stdout.strip()
        problem, advice = REASONS.get(reason, (f"docker does not answer: {error}", "look into dockerd's log"))
        return (NoDocker if reason == "absent" else DaemonError)(self.host, problem, advice=advice)
