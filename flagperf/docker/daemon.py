"""The docker daemon of a host, through the docker SDK. ssh or srun forwards the socket of another host."""

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
API_TIMEOUT = 60  # seconds for each request; waiting for a container has no such limit
ANSWER = 5  # seconds for the answer to a ping, before each request …
AGAIN = 1  # … and where the previous ping had no answer
RETRY = 0.3  # seconds between two attempts to reach a lost daemon

LOOK_TIMEOUT = 10.0  # seconds
LOOK = script(__file__, "look.sh")
UNIX = "unix://"
ENDPOINT = shell(script(__file__, "endpoint.sh"), USUAL)
REASONS = {
    "absent": ("docker is not installed", "install docker there, or choose runtime=process"),
    "silent": ("the docker daemon does not answer", "read dockerd's log there; systemctl restart docker"),
    "stopped": ("the docker daemon does not run", "start it there: systemctl start docker"),
    "forbidden": ("this user may not use docker", "add the user to the group docker there, or log in as another"),
    "runs": (
        "the docker daemon runs, but its socket cannot be reached from here",
        "let sshd there forward sockets (sshd_config: AllowStreamLocalForwarding yes, no DisableForwarding)",
    ),
}
TIMED_OUT = "Read timed out"  # urllib3's words: requests raises several kinds of errors for it
NOT_DOCKERS = "the docker daemon gave an answer that is not docker's"
PROXY = "is a proxy in front of docker's socket there?"
MISSING = 404  # the status of an answer about a container or image that does not exist
DAMAGED = 500  # the lowest status of an answer that is the daemon's own fault

T = TypeVar("T")


class DaemonError(HostError):
    """The host answers, but its docker daemon does not."""

    lost = "docker daemon"


class NoDocker(DaemonError):
    """Docker is not installed on the host."""


class DockerRefusal(DaemonError):
    """The daemon answers, but refuses a request, or cannot do it.

    Args:
        status: the HTTP status of the answer; None: unknown.
        explanation: the daemon's own words.
    """

    lost = ""

    def __init__(self, host: str, status: int | None, explanation: str) -> None:
        self.status, self.explanation = status, explanation
        advice = "read dockerd's log there" if (status or DAMAGED) >= DAMAGED else "ask who restricts docker there"
        super().__init__(host, f"docker refuses a request: {explanation}", advice=advice)


class _Unreachable(Exception):
    """The daemon accepts no connection."""


class _Silent(_Unreachable):
    """The daemon accepts a connection and then does not answer."""


class DockerHost:
    """The docker daemon of one host. Used as `async with DockerHost(transport, patience) as docker:`.

    Args:
        patience: seconds of further attempts to reach a lost daemon.
    """

    def __init__(self, transport: Transport, patience: float = 0.0) -> None:
        self.transport, self.host, self.patience = transport, transport.host, patience
        self.socket = ""  # path of the daemon's socket on the host; empty until it is known
        self._connected = AsyncExitStack()
        self._client: DockerClient | None = None
        self._pings: APIClient | None = None  # a client for pings only
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
        """Close the connection. Does not wait for running calls."""
        async with self._connecting:
            await self._disconnect()

    async def call(self, work: Callable[[DockerClient], T], *, again: bool = True) -> T:
        """Do blocking work with the SDK's client in a thread.

        Args:
            again: whether the work may be repeated after the connection dropped during the work.

        Raises:
            DockerRefusal: the daemon refused the work.
            DaemonError: the host can be reached, but its daemon cannot.
            HostError: the host cannot be reached.
        """
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience
        silent = self._answer == AGAIN  # at the previous call
        while True:
            client = None
            try:
                client = await self._ready()
                return await in_thread(partial(work, client))
            except DockerException as error:
                status = getattr(error, "status_code", None)
                raise DockerRefusal(self.host, status, getattr(error, "explanation", None) or str(error)) from error
            except (KeyError, TypeError) as error:  # also of the SDK, for an error without the daemon's words
                raise DaemonError(self.host, f"{NOT_DOCKERS}: {error!r}", advice=PROXY) from error
            except _Silent as error:
                if silent:
                    raise await self._diagnosis(error) from error
                await self._look()  # raises HostError where the host itself does not answer
                silent = True
            except (_Unreachable, RequestException, OSError) as error:
                await self._drop(client)
                if loop.time() >= deadline or not again:
                    raise await self._diagnosis(error) from error
                await asyncio.sleep(RETRY)

    async def _ready(self) -> DockerClient:
        """A client whose daemon has just answered a ping."""
        async with self._connecting:
            try:
                client = await self._existing_client() or await self._connect()
            except BaseException as error:
                self._answer = AGAIN if isinstance(error, _Silent) else self._answer
                if self._client is None or not isinstance(error, asyncio.CancelledError):  # others may use the client
                    await self._disconnect()
                raise
            self._answer = ANSWER
            return client

    async def _drop(self, client: DockerClient | None) -> None:
        """Close the connection of a client that failed, unless another call has made a new one already."""
        async with self._connecting:
            if client is not None and client is self._client:
                await self._disconnect()

    async def _existing_client(self) -> DockerClient | None:
        """The client of the open connection, if the daemon still answers."""
        from requests.exceptions import RequestException, Timeout

        if self._pings is None:
            return None
        try:
            await in_thread(self._pings.ping)
        except Timeout as error:
            raise _Silent from error
        except (RequestException, OSError):  # the idle connection was dropped
            await self._disconnect()
        return self._client

    async def _connect(self) -> DockerClient:
        self.socket = self.socket or await self._find_socket()
        socket = await self._connected.enter_async_context(self.transport.unix_socket(self.socket))
        self._pings, client = await in_thread(partial(_clients, f"unix://{socket}", self._answer))
        self._client = client
        return client

    async def _find_socket(self) -> str:
        """The daemon's socket on the host. Docker's own commands on the host use the same socket."""
        endpoint = (await self.transport.run(ENDPOINT, timeout=LOOK_TIMEOUT)).stdout.strip()
        if not endpoint.startswith(UNIX):
            problem = f"docker uses {endpoint or 'no endpoint'} there, but flagperf needs a unix socket on the host"
            raise DaemonError(self.host, problem, advice=f"set DOCKER_HOST={UNIX}{USUAL} there, or unset it")
        return endpoint.removeprefix(UNIX)

    async def _look(self) -> str:
        """The key in REASONS that tells why the daemon does not answer."""
        return (await self.transport.run(shell(LOOK, self.socket), timeout=LOOK_TIMEOUT)).stdout.strip()

    async def _disconnect(self) -> None:
        """Close the connection. The caller holds the lock: another call could be connecting."""
        for client in (self._client, self._pings):
            if client is not None:
                client.close()
        self._client = self._pings = None
        await self._connected.aclose()

    async def _diagnosis(self, error: BaseException) -> DaemonError:
        """The error for a daemon that does not answer."""
        from requests.exceptions import JSONDecodeError

        if not isinstance(error, _Unreachable):
            try:
                await self._ready()
                problem = f"the docker daemon dropped a call: {error}"
                if TIMED_OUT in str(error):
                    problem = f"the docker daemon did not answer a request in time: {error}"
                elif isinstance(error, JSONDecodeError):
                    return DaemonError(self.host, f"{NOT_DOCKERS}: {error}", advice=PROXY)
                return DaemonError(self.host, problem, advice="read dockerd's log there")
            except _Unreachable as unreachable:
                error = unreachable
        reason = "silent"
        if not isinstance(error, _Silent):
            reason = await self._look()
        problem, advice = REASONS.get(reason, (f"docker does not answer: {error}", "read dockerd's log"))
        return (NoDocker if reason == "absent" else DaemonError)(self.host, problem, advice=advice)


def _clients(url: str, answer: int) -> tuple[APIClient, DockerClient]:
    """A client for pings, which waits at most `answer` seconds, and a client for work."""
    from docker import APIClient, DockerClient
    from docker.errors import DockerException
    from requests.exceptions import Timeout

    try:
        pings = APIClient(url, version="auto", timeout=answer)
    except DockerException as error:
        raise (_Silent if isinstance(error.__cause__, Timeout) else _Unreachable)(str(error)) from error
    return pings, DockerClient(url, version=pings.api_version, timeout=API_TIMEOUT)
