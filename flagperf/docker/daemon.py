"""The docker daemon of a host, through the docker SDK. The socket of another host is forwarded over ssh or srun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from flagperf.docker.blocking import in_thread
from flagperf.errors import HostError
from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Transport

if TYPE_CHECKING:
    from docker import APIClient, DockerClient

USUAL = "/var/run/docker.sock"
API_TIMEOUT = 60  # seconds that the daemon may take for its work; waiting for a container has no such limit
ANSWER = 5  # seconds that it may take to say that it is there, before it is given work …
AGAIN = 1  # … and where it did not say so the last time
RETRY = 0.3  # seconds between two attempts to reach a daemon that went away

LOOK_TIMEOUT = 10.0  # seconds
LOOK = script(__file__, "look.sh")
UNIX = "unix://"
ENDPOINT = shell(script(__file__, "endpoint.sh"), USUAL)
REASONS = {
    "absent": ("docker is not installed", "install docker there, or choose runtime=process"),
    "silent": ("the docker daemon does not answer", "look into dockerd's log there; systemctl restart docker"),
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


class _Silent(_Unreachable):
    """The daemon takes connections and says nothing."""


class DockerHost:
    """The daemon of one host. Used as `async with DockerHost(transport, patience) as docker:`.

    Args:
        patience: seconds for which a daemon that went away is tried again.
    """

    def __init__(self, transport: Transport, patience: float = 0.0) -> None:
        self.transport, self.host, self.patience = transport, transport.host, patience
        self.socket = ""  # path of the daemon's socket on the host, once it is known
        self._connected = AsyncExitStack()
        self._client: DockerClient | None = None
        self._pings: APIClient | None = None  # asks whether the daemon is there
        self._answer = ANSWER
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> DockerHost:
        try:
            await self.call(lambda _: None)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Nobody waits for calls that still run."""
        await self._disconnect()

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
        silent = self._answer == AGAIN  # when it was called last
        while True:
            try:
                client = await self._ready()
                return await in_thread(partial(work, client))
            except APIError:
                raise
            except _Silent as error:
                await self._disconnect()
                if silent:
                    raise await self._why(error) from error
                await self._look()  # raises where it is the host that is silent
                silent = True
            except (_Unreachable, RequestException, OSError) as error:
                await self._disconnect()
                if loop.time() >= deadline or not again:
                    raise await self._why(error) from error
                await asyncio.sleep(RETRY)

    async def _ready(self) -> DockerClient:
        """The client of a daemon that answers, made again where the last one was given up."""
        async with self._connecting:
            try:
                client = await self._again() or await self._connect()
            except _Silent:
                self._answer = AGAIN
                raise
            self._answer = ANSWER
            return client

    async def _again(self) -> DockerClient | None:
        """The client that is there already, where the daemon still answers it."""
        from requests.exceptions import RequestException, Timeout

        if self._pings is None:
            return None
        try:
            await in_thread(self._pings.ping)
        except Timeout as error:
            raise _Silent from error
        except (RequestException, OSError):  # the connection dropped while nobody used it
            await self._disconnect()
        return self._client

    async def _connect(self) -> DockerClient:
        self.socket = self.socket or await self._find_socket()
        socket = await self._connected.enter_async_context(self.transport.unix_socket(self.socket))
        self._pings, client = await in_thread(partial(_clients, f"unix://{socket}", self._answer))
        self._client = client
        return client

    async def _find_socket(self) -> str:
        """The daemon's socket on the host: the one that docker's own commands use there."""
        endpoint = (await self.transport.run(ENDPOINT, timeout=LOOK_TIMEOUT)).stdout.strip()
        if not endpoint.startswith(UNIX):
            problem = f"docker is reached at {endpoint or 'no place'} there, and flagperf needs a socket on the host"
            raise DaemonError(self.host, problem, advice=f"set DOCKER_HOST={UNIX}{USUAL} there, or unset it")
        return endpoint.removeprefix(UNIX)

    async def _look(self) -> str:
        """A word for why the daemon does not answer."""
        return (await self.transport.run(shell(LOOK, self.socket), timeout=LOOK_TIMEOUT)).stdout.strip()

    async def _disconnect(self) -> None:
        for client in (self._client, self._pings):
            if client is not None:
                client.close()
        self._client = self._pings = None
        await self._connected.aclose()

    async def _why(self, error: BaseException) -> DaemonError:
        """Why a daemon does not answer."""
        if not isinstance(error, _Unreachable):
            try:
                await self._ready()
                problem, advice = f"the docker daemon dropped a call: {error}", "look into dockerd's log there"
                return DaemonError(self.host, problem, advice=advice)
            except _Unreachable as unreachable:
                error = unreachable
        reason = "silent"
        if not isinstance(error, _Silent):
            reason = await self._look()
        problem, advice = REASONS.get(reason, (f"docker does not answer: {error}", "look into dockerd's log"))
        return (NoDocker if reason == "absent" else DaemonError)(self.host, problem, advice=advice)


def _clients(url: str, answer: int) -> tuple[APIClient, DockerClient]:
    """One client that asks whether the daemon is there, for at most `answer` seconds, and one that gives it work."""
    from docker import APIClient, DockerClient
    from docker.errors import DockerException
    from requests.exceptions import Timeout

    try:
        pings = APIClient(url, version="auto", timeout=answer)
    except DockerException as error:
        raise (_Silent if isinstance(error.__cause__, Timeout) else _Unreachable)(str(error)) from error
    return pings, DockerClient(url, version=pings.api_version, timeout=API_TIMEOUT)
