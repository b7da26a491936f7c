"""Everything the launcher does on a host goes through a Transport, so that one executor drives local and ssh hosts.

`LocalTransport` is this machine; `flagperf.hosts.ssh.transport.SshTransport` another one. Neither leaves anything
running: a process started with `start` ends when it is stopped, when its transport closes, and when the launcher dies.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from flagperf.command import Command
from flagperf.errors import HostError
from flagperf.hosts import guard

READ_SIZE = 1 << 20  # bytes that one `read` gives at most
LOGGED = 300  # characters of a command in the run's log

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Completed:
    """A command that ended."""

    command: Command
    exit_status: int | None  # negative: killed by that signal; None: the connection was lost, nothing is known
    stdout: str
    stderr: str


class Process(Protocol):
    """A process tree, or a container, that runs on a host."""

    async def wait(self) -> int | None:
        """Wait for its end: exit status, negative for a signal, None when the host was lost."""
        ...

    async def stop(self) -> None:
        """Ask it to end (SIGTERM), kill it after its grace; returns when nothing of it is left. May be called twice."""
        ...

    async def reason(self) -> str | None:
        """What is known of it beyond the exit status, such as "out of memory"; None: nothing.

        Raises HostError when its host, or what runs it there, is lost.
        """
        ...


class Transport(Protocol):
    """One host. Used as `async with transport:`, which connects and at the end stops what still runs.

    Every method raises HostError when the host cannot be reached (any more).
    """

    host: str  # name for people and for folder names
    address: str  # where the other nodes reach it; known once connected
    local: bool  # paths on this host are the launcher's own: nothing needs to be sent or collected

    async def __aenter__(self) -> Transport: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        """Run a short command to its end. Past `timeout` seconds it is killed and HostError raised."""
        ...

    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        """Start a long command whose output is appended to the file `log` on the host.

        `grace`: seconds between SIGTERM and SIGKILL when it is stopped.
        """
        ...

    async def read(self, path: str, offset: int = 0) -> bytes:
        """What a file holds from `offset` on, at most READ_SIZE bytes; nothing when there is no such file yet."""
        ...

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or a folder of the launcher to the host; missing parents are made."""
        ...

    async def get(self, source: str, target: Path) -> None:
        """Copy a file or a folder of the host to the launcher, over what is there; missing parents are made."""
        ...

    def unix_socket(self, path: str) -> AbstractAsyncContextManager[str]:
        """A socket of this machine that leads to the host's unix socket `path`, while the block runs."""
        ...


def logged(method: Method) -> Method:
    """A transport's `run` or `start` that logs each command, what came of it, and the seconds it took."""

    @functools.wraps(method)
    async def do(self: Transport, command: Command, **options: Any) -> Completed | Process:
        began, came = time.monotonic(), "failed"
        try:
            done: Completed | Process = await method(self, command, **options)
            came = f"exit status {done.exit_status}" if isinstance(done, Completed) else "started"
            return done
        finally:
            words = " ".join(shlex.join(command.argv).split())[:LOGGED]
            log.debug("%s: %s after %.3f s: %s", self.host, came, time.monotonic() - began, words)

    return cast(Method, do)


class LocalProcess:
    """A command under `flagperf.hosts.guard`, which holds its whole process tree."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def wait(self) -> int | None:
        return await self._process.wait()

    async def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()  # the guard's sign to stop everything
        await self._process.wait()

    async def reason(self) -> str | None:
        return None


class LocalTransport:
    """This machine."""

    local = True

    def __init__(self, host: str, address: str = "127.0.0.1") -> None:
        self.host = host
        self.address = address
        self._started: list[LocalProcess] = []

    async def __aenter__(self) -> LocalTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(process.stop() for process in self._started))

    @logged
    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        try:
            process = await asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=command.cwd,
                env={**os.environ, **command.env},
                start_new_session=True,
            )
        except OSError as error:  # no such program: answered as a shell does
            return Completed(command, 127, "", f"{command.argv[0]}: {error.strerror}")
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(stdin), timeout)
        except asyncio.TimeoutError:
            raise HostError(self.host, f"no answer within {timeout:g} s from: {command.line()}") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return Completed(command, process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))

    @logged
    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        words = (sys.executable, "-I", "-S", guard.__file__, str(grace), *command.argv)
        with Path(log).open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=command.cwd,
                env={**os.environ, **command.env},
                start_new_session=True,  # a signal to the launcher's group, such as Ctrl-C, is not meant for it
            )
        started = LocalProcess(process)
        self._started.append(started)
        return started

    async def read(self, path: str, offset: int = 0) -> bytes:
        try:
            with Path(path).open("rb") as file:
                file.seek(offset)
                return file.read(READ_SIZE)
        except FileNotFoundError:
            return b""

    async def put(self, source: Path, target: str) -> None:
        _copy(source, Path(target))

    async def get(self, source: str, target: Path) -> None:
        _copy(Path(source), target)

    def unix_socket(self, path: str) -> AbstractAsyncContextManager[str]:
        return nullcontext(path)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or folder unless both paths are the same place."""
    if target.exists() and source.samefile(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)
