"""Another machine as a Transport, over one ssh connection. It needs sshd and a POSIX shell."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import asyncssh
from typing_extensions import override

from flagperf.config.schema.cluster import Node, Ssh
from flagperf.contract.command import Command
from flagperf.contract.outcome import Outage
from flagperf.errors import THIS_MACHINE, ConfigError, HostError
from flagperf.hosts.awake import Pulse, at_most, within
from flagperf.hosts.sockets import remove_dead_socket_folders, socket_folder
from flagperf.hosts.ssh.clock import offset_and_shell
from flagperf.hosts.ssh.connection import ATTEMPTS, DROPPED, Gate, SshConnection
from flagperf.hosts.ssh.fetching import fetch, is_regular, list_below
from flagperf.hosts.ssh.forwarding import forwarded
from flagperf.hosts.ssh.process import SshProcess
from flagperf.hosts.transport import (
    FILES,
    FILES_AGAIN,
    Completed,
    FileRefused,
    FilesError,
    Listing,
    Process,
    Transport,
    logged,
    no_answer,
)

OPEN_FILES = 64  # of a launcher, …
OPEN_FILES_OF_HOST = 8  # … and of each connection: itself, and docker's socket
BLOCK = 128 * 1024  # bytes that every sftp server gives in one answer
ONE_REQUEST = 0  # block size for which asyncssh makes no tasks; a cancellation would leave tasks behind
NO_SFTP = "sshd_config there needs a line that works, such as: Subsystem sftp internal-sftp"
TIMED_OUT = 124  # exit status of coreutils' timeout

log = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[asyncssh.SFTPClient], Coroutine[Any, Any, T]]


class SshTransport(Transport):
    """One host of a cluster.

    Args:
        node: the address of the host.
        ssh: the options of the connection.
        timeout: seconds for the connection, and again for the login.
        gate: limits the number of simultaneous logins of a run.
    """

    local = False
    python: str | None = None
    clock_offset = 0.0

    def __init__(self, node: Node, ssh: Ssh, timeout: float, gate: Gate | None = None) -> None:
        self.host, self.address, self.same_files = node.name, node.address, node.shared
        self.linger: float | None = ssh.reconnect
        self.connection = SshConnection(node, ssh, timeout, gate or Gate())
        self.outages: Sequence[Outage] = self.connection.outages
        self._files: asyncssh.SFTPClient | None = None
        self._silent: asyncssh.SFTPClient | None = None  # the file channel on which nothing moved
        self._shell: asyncssh.SSHClientProcess[str] | None = None  # printed the clock; reused once
        self._started: list[SshProcess] = []

    async def __aenter__(self) -> SshTransport:
        await self.connection.open()
        try:
            peer = (await self.connection.established()).get_extra_info("peername")
            if peer and peer[0]:  # a proxy command gives no peer, a jump host an empty name
                self.address = peer[0]
            self.clock_offset, self._shell = await offset_and_shell(self.connection)
        except BaseException:
            await self.connection.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.gather(*(self._stop(process) for process in self._started))
        finally:
            await self.connection.close()

    async def _stop(self, process: SshProcess) -> None:
        with contextlib.suppress(HostError):  # after a while the host stops the process itself
            await process.stop()

    @override
    @logged
    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        limit = ("timeout", "-k", "1", f"{timeout:g}")  # ends the command even if the launcher dies
        bare = command.argv[0] == "sh" and not command.env and not command.cwd  # a script needs no second shell
        words = command.argv if bare else ("sh", "-c", command.line())
        channel = await self._channel((*limit, *words))
        try:
            output = await asyncio.wait_for(_output(channel, stdin.decode()), timeout + self.connection.timeout)
        except asyncio.TimeoutError:
            raise no_answer(self.host, command, timeout) from None
        finally:
            channel.close()
        if channel.returncode == TIMED_OUT:
            raise no_answer(self.host, command, timeout)
        return Completed(command, channel.returncode, *output)

    async def _channel(self, argv: tuple[str, ...]) -> asyncssh.SSHClientProcess[str]:
        """Start a command on a channel. The first command uses the shell that printed the clock, if it still runs."""
        line, shell, self._shell = shlex.join(argv), self._shell, None
        if shell is not None and not shell.is_closing() and "\n" not in line:
            with contextlib.suppress(OSError):  # the connection dropped meanwhile
                shell.stdin.write(f"{line}\n")
                return shell
        if shell is not None:
            shell.close()
        return await self.connection.channel(argv)

    @override
    @logged
    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        process = await SshProcess.start(self, self.connection, command, log, grace)
        self._started.append(process)
        return process

    @override
    async def read(self, path: str, offset: int = 0) -> bytes:
        async def work(files: asyncssh.SFTPClient) -> bytes:
            if not offset and not is_regular(await files.lstat(path)):
                return b""
            async with files.open(path, "rb", block_size=ONE_REQUEST) as file:
                content: bytes = await file.read(BLOCK, offset)
                return content

        async def limited(files: asyncssh.SFTPClient) -> bytes:
            return await self._while_moving(files, lambda limit: at_most(work(files), limit))

        try:
            return await self._with_files(limited, f"{path} cannot be read")
        except FileNotFoundError:
            return b""

    @override
    async def put(self, source: Path, target: str) -> None:
        folder = source.is_dir()
        if self.same_files and Path(target).exists() and source.samefile(target):
            return  # to write a file onto itself would empty it

        async def copy(files: asyncssh.SFTPClient, pulse: Pulse) -> None:
            await files.makedirs(target if folder else str(PurePosixPath(target).parent), exist_ok=True)
            sources = list(source.iterdir()) if folder else source
            options: dict[str, Any] = {"recurse": True, "preserve": True, "follow_symlinks": True}
            await files.put(sources, target, progress_handler=pulse.beat, **options)

        await self._copy(copy)

    @override
    async def listing(self, folder: str) -> Listing:
        return await self._copy(lambda files, pulse: list_below(files, folder, pulse))

    @override
    async def get(self, source: str, target: Path) -> None:
        await self._copy(lambda files, pulse: fetch(files, source, target, pulse))

    @override
    @contextlib.asynccontextmanager
    async def unix_socket(self, path: str) -> AsyncIterator[str]:
        connection = await self.connection.established()
        with socket_folder() as folder:
            local = f"{folder}/socket"
            async with contextlib.AsyncExitStack() as stack:
                try:
                    await stack.enter_async_context(forwarded(connection, local, path))
                except OSError as error:
                    raise HostError(self.host, f"its {path} cannot be forwarded: {error}") from error
                yield local

    async def _copy(self, copy: Callable[[asyncssh.SFTPClient, Pulse], Coroutine[Any, Any, T]]) -> T:
        """Work with files as long as they move."""

        async def work(files: asyncssh.SFTPClient) -> T:
            pulse = Pulse()
            once = self._ends_with_channel(lambda files: copy(files, pulse))
            return await self._while_moving(files, lambda limit: within(once(files), limit, pulse))

        return await self._with_files(work)

    async def _while_moving(self, files: asyncssh.SFTPClient, limited: Callable[[float], Awaitable[T]]) -> T:
        """Work on a file channel, within a limit. Where nothing moves, a new file channel is tried once."""
        try:
            result = await limited(FILES if self._silent is None else FILES_AGAIN)
        except asyncio.TimeoutError:
            files.exit()
            if self._files is files:
                self._files = None
            if self._silent not in (None, files):  # else a new channel may move, also for other files of this one
                raise FilesError(self.host) from None
            self._silent = files
            raise asyncssh.SFTPConnectionLost("no answer") from None
        self._silent = None
        return result

    def _ends_with_channel(self, copy: Work[T]) -> Work[T]:
        """A copy that ends its file channel when it is cancelled. This ends asyncssh's remaining tasks, too."""

        async def work(files: asyncssh.SFTPClient) -> T:
            copying = asyncio.create_task(copy(files))
            try:
                return await asyncio.shield(copying)
            except asyncio.CancelledError:
                copying.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody needs the result
                self._files = None
                files.exit()
                raise

        return work

    async def _with_files(self, work: Work[T], problem: str = "a file cannot be copied") -> T:
        """Work on the connection's file channel. The work starts again after the connection dropped.

        Args:
            problem: what a refusal of the sftp server means.
        """
        used: list[asyncssh.SSHClientConnection] = []
        for _ in range(ATTEMPTS):
            used.append(await self.connection.established())
            try:
                if self._files is None:
                    starting = used[-1].start_sftp_client(path_errors="surrogateescape")
                    self._files = await at_most(starting, FILES)
                return await work(self._files)
            except asyncssh.SFTPNoSuchFile as error:
                raise FileNotFoundError(error.reason) from error
            except asyncssh.ChannelOpenError as error:
                if error.code == asyncssh.OPEN_REQUEST_SESSION_FAILED:
                    raise HostError(self.host, "sshd there offers no sftp", advice=NO_SFTP) from error
            except DROPPED:
                self._files = None
            except asyncio.TimeoutError:
                raise FilesError(self.host) from None
            except asyncssh.SFTPError as error:
                raise FileRefused(self.host, error.reason, problem) from error
        if all(connection is used[0] for connection in used):
            raise HostError(self.host, "the sftp server of sshd ends at once", advice=NO_SFTP)
        raise self.connection.drop_error()


async def _output(channel: asyncssh.SSHClientProcess[str], stdin: str) -> tuple[str, str]:
    """Give a command its input, and wait for its end: stdout and stderr."""
    try:
        return await channel.communicate(stdin)
    except ConnectionError:  # the command, or the connection, ended before the input was sent
        done = await channel.wait()
        return str(done.stdout), str(done.stderr)


def over_ssh(nodes: Sequence[Node], ssh: Ssh, timeout: float) -> list[SshTransport]:
    """A transport over ssh for each node. `timeout`: seconds for a connection.

    Raises:
        ConfigError: this machine allows too few open files.
    """
    _allow_files(len(nodes))
    remove_dead_socket_folders()
    if not ssh.strict:
        log.warning("host keys are not checked, because the cluster's file sets ssh.strict: false")
    gate = Gate()
    return [SshTransport(node, ssh, timeout, gate) for node in nodes]


def _allow_files(hosts: int) -> None:
    """Let this process have as many open files as the connections need, where the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted, least = OPEN_FILES + OPEN_FILES_OF_HOST * hosts, OPEN_FILES + hosts
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if most < least:
        problem = f"this machine allows a process {most} open files, and {hosts} hosts need {least}"
        raise ConfigError(problem, where=THIS_MACHINE, key="ulimit -n", given=hard, advice="raise the limit here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
