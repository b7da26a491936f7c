"""The ssh connection to one host, optionally through a jump host. A dropped connection is made again."""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import asyncssh

from flagperf.config.schema.cluster import Node, Ssh
from flagperf.contract.outcome import Outage
from flagperf.errors import FlagperfError, HostError, JumpError
from flagperf.hosts.awake import AwakeClock, at_most
from flagperf.hosts.ssh.errors import FAILURES, explain
from flagperf.hosts.ssh.host_key import KeyRecorder, host_keys
from flagperf.hosts.ssh.login import KEEPALIVES, connect_options
from flagperf.hosts.ssh.openssh_files import LoginFiles, hops
from flagperf.hosts.transport import LOGINS_AT_ONCE

AT_ONCE = 64  # logins of a launcher at the same time: each costs this machine some milliseconds of a core
ATTEMPTS = 4  # at a login that sshd refuses early, and at work during which the connection drops
SESSION = 30.0  # seconds for sshd to start a command
BACK_OFF = 0.3  # seconds before the second attempt; doubled for each further one

REFUSED_EARLY = (asyncssh.ConnectionLost, ConnectionResetError, BrokenPipeError)  # what MaxStartups looks like
DROPPED = (
    asyncssh.ConnectionLost,
    asyncssh.ChannelOpenError,
    asyncssh.SFTPConnectionLost,
    asyncssh.SFTPNoConnection,
    ConnectionError,
)

log = logging.getLogger(__name__)
asyncssh.set_log_level(logging.WARNING)


class Gate:
    """Limits the simultaneous logins of a run: in all, and to each sshd that is reached first."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(AT_ONCE)
        self._of_sshd: dict[tuple[str, int | None], asyncio.Semaphore] = {}

    @asynccontextmanager
    async def turn(self, first: Node) -> AsyncIterator[None]:
        """Wait for the turn of a login whose first host is this one. The block is the login."""
        of_sshd = self._of_sshd.setdefault((first.address, first.port), asyncio.Semaphore(LOGINS_AT_ONCE))
        async with of_sshd, self._all:
            yield


class SshConnection:
    """One connection, from `open` to `close`. A dropped connection is made again, within `ssh.reconnect` seconds.

    Args:
        node: the address of the host.
        ssh: the options of the connection.
        timeout: seconds for the connection, and again for the login.
        gate: limits the number of simultaneous logins of a run.
    """

    def __init__(self, node: Node, ssh: Ssh, timeout: float, gate: Gate) -> None:
        self.host = node.name
        self.node, self.ssh, self.timeout = node, ssh, timeout
        self.outages: list[Outage] = []
        self._gate = gate
        self._connecting = asyncio.Lock()
        self._hops = AsyncExitStack()  # the jump host's connection and the host's own
        self._connection: asyncssh.SSHClientConnection | None = None
        self._lost: HostError | None = None
        self._waits_for: Node | None = None  # the jump host at which the last attempt ended

    async def open(self) -> None:
        """Connect. Raises HostError or ConfigError where that fails."""
        self._connection = await self._connect()

    async def close(self) -> None:
        """Close the connection. Later work raises HostError."""
        self._lost = self._lost or HostError(self.host, "the connection was closed")
        await self._disconnect()

    async def established(self) -> asyncssh.SSHClientConnection:
        """The living connection. A dropped connection is made again.

        Raises:
            HostError: no connection within `ssh.reconnect` seconds, or the connection was closed.
        """
        async with self._connecting:
            if self._lost:
                raise self._lost
            if self._connection is None or self._connection.is_closed():
                await self._reconnect()
            assert self._connection is not None
            return self._connection

    async def channel(self, argv: tuple[str, ...]) -> asyncssh.SSHClientProcess[str]:
        """Start a command on a channel of its own, with text streams."""
        line = shlex.join(argv)
        limit = max(SESSION, (KEEPALIVES + 1) * self.ssh.keepalive)  # a lost connection is noticed before
        for _ in range(ATTEMPTS):
            connection = await self.established()
            try:
                return await at_most(connection.create_process(line, errors="replace"), limit)
            except asyncio.TimeoutError:
                problem, advice = f"sshd opens no session within {limit:g} s", "see sshd's log, and the load there"
                raise HostError(self.host, problem, advice=advice) from None
            except DROPPED as error:
                if not connection.is_closed():
                    advice = "raise MaxSessions of sshd, or free its resources"
                    raise HostError(self.host, f"sshd opens no further session: {error}", advice=advice) from error
        raise self.drop_error()

    def drop_error(self) -> HostError:
        """The error after the last attempt at work during which the connection drops."""
        return HostError(self.host, "the ssh connection drops again and again")

    async def _reconnect(self) -> None:
        log.warning("%s: the ssh connection dropped, connecting again", self.host)
        await self._disconnect()
        began = time.time()
        async with AwakeClock() as clock:
            await self._keep_trying(clock)
            self.outages.append(Outage(self.host, began, clock.now()))
        log.warning("%s: connected again after %.1f s", self.host, self.outages[-1].seconds)

    async def _keep_trying(self, clock: AwakeClock) -> None:
        pause = BACK_OFF
        while True:
            try:
                left = max(self.ssh.reconnect - clock.now(), 0.1)
                self._connection = await asyncio.wait_for(self._connect(), left)
                return
            except (FlagperfError, asyncio.TimeoutError) as error:
                problem = getattr(error, "problem", None) or str(error) or "no answer"
                log.debug("%s: not connected: %s", self.host, problem)
                if clock.now() + pause >= self.ssh.reconnect:
                    self._lost = self._loss(problem)
                    raise self._lost from error
            await asyncio.sleep(pause)
            pause *= 2

    def _loss(self, problem: str) -> HostError:
        """The error after the last attempt. The first host without a login on the way is the lost one."""
        text = f"lost: no ssh connection for {self.ssh.reconnect:g} s ({problem})"
        if self._waits_for is None:
            return HostError(self.host, text, advice="check that the host is up and its network works")
        advice = "check that the jump host is up and its network works"
        return JumpError(self.host, text, self._waits_for.address, advice=advice)

    async def _connect(self) -> asyncssh.SSHClientConnection:
        """Log in. Repeats the login where sshd dropped the connection before the login."""
        for attempt in range(ATTEMPTS - 1):
            try:
                return await self._log_in()
            except HostError as error:
                if not isinstance(error.__cause__, REFUSED_EARLY):
                    raise
            await asyncio.sleep(BACK_OFF * 2**attempt)
        return await self._log_in()

    async def _log_in(self) -> asyncssh.SSHClientConnection:
        """Log in once to the node, through the jump host where the cluster has a jump host."""
        logins = hops(self.node, self.ssh)
        connection: asyncssh.SSHClientConnection | None = None
        async with self._gate.turn(logins[0].host), AsyncExitStack() as stack:
            for number in range(1, len(logins) + 1):
                connection = await self._hop(logins[:number], connection, stack, jump=number < len(logins))
            self._hops = stack.pop_all()
        assert connection is not None
        return connection

    async def _hop(
        self,
        logins: Sequence[LoginFiles],
        tunnel: asyncssh.SSHClientConnection | None,
        stack: AsyncExitStack,
        *,
        jump: bool,
    ) -> asyncssh.SSHClientConnection:
        """Log in to the last of these hosts, through the host before."""
        *_, login = logins
        self._waits_for = login.host if jump else None
        recorder, options = KeyRecorder(), connect_options(login.options, self.ssh, self.timeout, tunnel)
        try:
            connecting = asyncssh.connect(login.host.address, client_factory=lambda: recorder, **options)
            return await stack.enter_async_context(connecting)
        except FAILURES as error:
            keys = host_keys(error, recorder, login.host, options, login.known_hosts)
            route = [each.host for each in logins]
            raise explain(error, route, self.ssh, keys, jump=jump, connected=recorder.connected) from error

    async def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.abort()  # a close would wait for a peer that may be gone
        await self._hops.aclose()
