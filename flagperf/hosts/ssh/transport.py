"""Another machine, over one asyncssh connection. It needs sshd and a POSIX shell, nothing of ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TypeVar

import asyncssh

from flagperf.command import Command
from flagperf.config.values import Node, Ssh
from flagperf.errors import FlagperfError, HostError
from flagperf.hosts.ssh.errors import FAILURES, explain
from flagperf.hosts.ssh.login import options, way
from flagperf.hosts.ssh.process import SshProcess
from flagperf.hosts.transport import Completed, Process, logged

AT_ONCE = 8  # connections being made at one time: sshd's MaxStartups refuses from 10 on, jump hosts feel it first
ATTEMPTS = 4  # of a connection that sshd dropped before the login
BACK_OFF = 0.3  # seconds before the second attempt; doubled for each further one

BLOCK = 128 * 1024  # bytes that every sftp server gives in one answer; asyncssh splits larger reads into tasks
TIMED_OUT = 124  # exit status of coreutils' timeout

REFUSED_EARLY = (asyncssh.ConnectionLost, ConnectionResetError, BrokenPipeError)  # what MaxStartups looks like

DROPPED = (
    asyncssh.ConnectionLost,
    asyncssh.ChannelOpenError,
    asyncssh.SFTPConnectionLost,
    asyncssh.SFTPNoConnection,
    ConnectionError,
)
DROPS = "the ssh connection drops again and again"

T = TypeVar("T")

log = logging.getLogger(__name__)
asyncssh.set_log_level(logging.WARNING)


class SshTransport:
    """One host of a cluster. A connection that drops is made again, for at most `ssh.reconnect` seconds.

    Args:
        node: where the host is.
        ssh: how it is reached.
        timeout: seconds for the connection, and again for the login.
        gate: shared by all transports of a run, so that not all knock at once.
    """

    local = False

    def __init__(self, node: Node, ssh: Ssh, timeout: float, gate: asyncio.Semaphore | None = None) -> None:
        self.host, self.address = node.name, node.address
        self.node, self.ssh, self.timeout = node, ssh, timeout
        self._gate = gate or asyncio.Semaphore(AT_ONCE)
        self._connecting = asyncio.Lock()
        self._resources: contextlib.AsyncExitStack | None = None
        self._connection: asyncssh.SSHClientConnection | None = None
        self._sftp: asyncssh.SFTPClient | None = None
        self._lost: HostError | None = None
        self._started: list[SshProcess] = []

    async def __aenter__(self) -> SshTransport:
        self._connection = await self._connect()
        peer = self._connection.get_extra_info("peername")
        if peer and peer[0]:  # there is none through a proxy command, and an empty one through a jump host
            self.address = peer[0]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(process.stop() for process in self._started), return_exceptions=True)
        self._lost = self._lost or HostError(self.host, "the connection was closed")
        await self._disconnect()

    @logged
    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        seconds = f"{timeout:g}"
        words = ("timeout", "-k", "1", seconds, "sh", "-c", command.line())  # ends it there, whatever happens here
        channel = await self.open(words)
        try:
            done = await asyncio.wait_for(channel.communicate(stdin.decode()), timeout + self.timeout)
        except asyncio.TimeoutError:
            raise self._no_answer(command, timeout) from None
        finally:
            channel.close()
        status = channel.returncode
        if status == TIMED_OUT:
            raise self._no_answer(command, timeout)
        return Completed(command, status, *done)

    def _no_answer(self, command: Command, timeout: float) -> HostError:
        return HostError(self.host, f"no answer within {timeout:g} s from: {command.line()}")

    @logged
    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        process = await SshProcess.start(self, command, log, grace)
        self._started.append(process)
        return process

    async def read(self, path: str, offset: int = 0) -> bytes:
        async def work(sftp: asyncssh.SFTPClient) -> bytes:
            async with sftp.open(path, "rb", block_size=BLOCK) as file:
                content: bytes = await file.read(BLOCK, offset)
                return content

        try:
            return await self._with_files(work)
        except FileNotFoundError:
            return b""

    async def put(self, source: Path, target: str) -> None:
        folder = source.is_dir()

        async def work(sftp: asyncssh.SFTPClient) -> None:
            await sftp.makedirs(target if folder else str(PurePosixPath(target).parent), exist_ok=True)
            what = list(source.iterdir()) if folder else source
            await sftp.put(what, target, recurse=True, preserve=True, follow_symlinks=True)

        await self._with_files(work)

    async def get(self, source: str, target: Path) -> None:
        async def work(sftp: asyncssh.SFTPClient) -> None:
            folder = await sftp.isdir(source)
            (target if folder else target.parent).mkdir(parents=True, exist_ok=True)
            inside = (
                [f"{source}/{name}" for name in await sftp.listdir(source) if name not in (".", "..")] if folder else []
            )
            await sftp.get(inside if folder else source, target, recurse=True, preserve=True)

        await self._with_files(work)

    @contextlib.asynccontextmanager
    async def unix_socket(self, path: str) -> AsyncIterator[str]:
        connection = await self.connection()
        with tempfile.TemporaryDirectory(prefix="flagperf-") as folder:  # only this user's, so only this user connects
            local = f"{folder}/socket"
            try:
                listener = await connection.forward_local_path(local, path)
            except (OSError, asyncssh.Error) as error:
                raise HostError(self.host, f"its {path} cannot be forwarded: {error}") from error
            try:
                yield local
            finally:
                listener.close()

    async def open(self, words: tuple[str, ...]) -> asyncssh.SSHClientProcess[str]:
        """Start a command on a channel of its own, with text streams."""
        line = shlex.join(words)
        for _ in range(ATTEMPTS):
            connection = await self.connection()
            try:
                return await connection.create_process(line, errors="replace")
            except DROPPED as error:
                if not connection.is_closed():
                    advice = "raise MaxSessions of sshd, or free its resources"
                    raise HostError(self.host, f"sshd opens no further session: {error}", advice=advice) from error
        raise HostError(self.host, DROPS)

    async def connection(self) -> asyncssh.SSHClientConnection:
        """The living connection, made again where the last one dropped."""
        async with self._connecting:
            if self._lost:
                raise self._lost
            if self._connection is None or self._connection.is_closed():
                await self._reconnect()
            assert self._connection is not None
            return self._connection

    async def _reconnect(self) -> None:
        log.warning("%s: the ssh connection dropped, connecting again", self.host)
        await self._disconnect()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.ssh.reconnect
        pause = BACK_OFF
        while True:
            try:
                self._connection = await asyncio.wait_for(self._connect(), max(deadline - loop.time(), 0.1))
            except (FlagperfError, asyncio.TimeoutError) as error:
                log.debug("%s: not connected: %s", self.host, problem_of(error))
                if loop.time() + pause >= deadline:
                    self._lost = HostError(
                        self.host,
                        f"lost: no ssh connection for {self.ssh.reconnect:g} s ({problem_of(error)})",
                        advice="look whether the host is up and its network works",
                    )
                    raise self._lost from error
                await asyncio.sleep(pause)
                pause *= 2
            else:
                log.warning("%s: connected again", self.host)
                return

    async def _connect(self) -> asyncssh.SSHClientConnection:
        """Connect, through the jump host where there is one."""
        hosts = way(self.node, self.ssh)
        for attempt in range(ATTEMPTS):
            resources, reached = contextlib.AsyncExitStack(), 0
            connection: asyncssh.SSHClientConnection | None = None
            try:
                async with self._gate:
                    for host in hosts:
                        how = options(host, self.ssh, self.timeout, connection)
                        connection = await resources.enter_async_context(asyncssh.connect(host.address, **how))
                        reached += 1
            except BaseException as error:
                await resources.aclose()
                if isinstance(error, REFUSED_EARLY) and attempt + 1 < ATTEMPTS:
                    await asyncio.sleep(BACK_OFF * 2**attempt)
                    continue
                if isinstance(error, FAILURES):
                    raise explain(error, hosts[: reached + 1], self.ssh) from error
                raise
            assert connection is not None
            self._resources = resources
            return connection
        raise AssertionError("unreachable")

    async def _disconnect(self) -> None:
        resources, self._resources, self._sftp = self._resources, None, None
        if self._connection is not None:
            self._connection.abort()  # a close would wait for a peer that may be gone
        if resources is not None:
            await resources.aclose()

    async def _with_files(self, work: Callable[[asyncssh.SFTPClient], Awaitable[T]]) -> T:
        """Work on the connection's file channel, again from the start where the connection drops."""
        for _ in range(ATTEMPTS):
            connection = await self.connection()
            try:
                if self._sftp is None:
                    self._sftp = await connection.start_sftp_client()
                return await work(self._sftp)
            except asyncssh.SFTPNoSuchFile as error:
                raise FileNotFoundError(error.reason) from error
            except DROPPED:
                self._sftp = None
            except asyncssh.SFTPError as error:
                raise HostError(self.host, f"a file cannot be copied: {error.reason}") from error
        raise HostError(self.host, DROPS)


def problem_of(error: BaseException) -> str:
    return getattr(error, "problem", None) or str(error) or "no answer"
