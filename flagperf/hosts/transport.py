"""The interface to a host. One executor uses it for local hosts and for hosts over ssh or srun.

`flagperf.hosts.local` is this machine, `flagperf.hosts.ssh.transport` another one. `flagperf.hosts.connect` chooses.
A transport leaves nothing running: a process ends when it is stopped, when its transport closes, and when the launcher
dies.
"""

from __future__ import annotations

import functools
import logging
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from flagperf.contract.command import Command
from flagperf.contract.outcome import Outage
from flagperf.errors import HostError

READ_SIZE = 1 << 20  # most bytes of one `read` …
LEAST_READ = 1 << 16  # … and fewest bytes, where the file has more
FILES = 20.0  # seconds for the files of a host to move on; a file system of many hosts may stand still for a while …
FILES_AGAIN = 10.0  # … and for those of a host that did not answer before
DEEPEST = 64  # folders inside each other that are listed
LINKS, UNREADABLE, DEEP = "links, pipes and devices", "files that cannot be read", f"folders below {DEEPEST} others"
MOST_CLOCK = 1.0  # seconds of clock difference that cause a warning
LOGINS_AT_ONCE = 8  # to one sshd: its MaxStartups refuses from 10 on
SIGNALLED = 128  # a shell and docker report an end by signal N as 128 + N
LOGGED = 300  # characters of a command in the run's log

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Completed:
    """A command that ended."""

    command: Command
    exit_status: int | None  # negative: killed by that signal; None: unknown, the connection was lost
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Listing:
    """What lies below a folder of a host, by paths in the folder."""

    files: Mapping[str, int]  # regular file → bytes
    folders: Sequence[str]
    left: dict[str, list[str]]  # what is not brought: LINKS, UNREADABLE and DEEP → paths


class FileRefused(HostError):
    """The host answers, but a file of it cannot be read or written."""

    lost = ""

    def __init__(self, host: str, reason: object, problem: str = "a file cannot be copied") -> None:
        super().__init__(host, f"{problem}: {reason}")


class FilesError(HostError):
    """The files of a host do not answer, though the host may."""

    def __init__(self, host: str) -> None:
        advice = "does a file system, or the file service of sshd, hang there?"
        super().__init__(host, f"its files do not answer: nothing moved for {FILES + FILES_AGAIN:g} s", advice=advice)


class Process(Protocol):
    """A process tree, or a container, that runs on a host."""

    async def wait(self) -> int | None:
        """Wait for its end: exit status, negative for a signal, None when the host was lost."""
        ...

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after the grace period; return when all processes ended. May be called twice."""
        ...

    async def reason(self) -> str | None:
        """Why the process ended or hangs, such as "out of memory"; None where no reason is known.

        Raises HostError when the host or its docker daemon is lost.
        """
        return None


class Transport(Protocol):
    """One host. `async with transport:` connects, and stops the remaining processes at its end.

    Every method raises HostError when the host cannot be reached.
    """

    host: str  # the name in messages and folders
    address: str  # the address for the other nodes; known after the connection
    local: bool  # whether the host is this machine
    same_files: bool  # whether the launcher's paths lead to the same files: no file needs to be sent or collected
    python: str | None  # an interpreter of 3.8 or newer on the host; None: unknown
    linger: float | None  # seconds for which processes outlive the connection; None: as long as the launcher lives
    clock_offset: float  # seconds by which the host's clock is ahead; known after the connection
    outages: Sequence[Outage]  # until now

    async def __aenter__(self) -> Transport: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def check_held(self) -> None:
        """Raise HostError, with the reason, where a scheduler has taken the host away."""
        return

    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        """Run a short command to its end. After `timeout` seconds it is killed, and HostError is raised."""
        ...

    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        """Start a long command whose output is appended to the file `log` on the host.

        `grace`: seconds between SIGTERM and SIGKILL when it is stopped.
        """
        ...

    async def read(self, path: str, offset: int = 0) -> bytes:
        """The content of a file from `offset` on: at most READ_SIZE bytes, and at least LEAST_READ of more.

        Empty where the path is no regular file.
        """
        ...

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or a folder of the launcher to the host. Missing parents are created."""
        ...

    async def listing(self, folder: str) -> Listing:
        """What lies below a folder of a host that has other files than the launcher.

        Raises FileNotFoundError where the folder does not exist.
        """
        raise FileNotFoundError(folder)

    async def get(self, source: str, target: Path) -> None:
        """Copy a regular file of the host to the launcher. An existing file is replaced, missing parents created.

        Raises FileNotFoundError where the source does not exist, and FileRefused where it cannot be read.
        """
        ...

    def unix_socket(self, path: str) -> AbstractAsyncContextManager[str]:
        """A socket of this machine that leads to the host's unix socket `path`, while the block runs."""
        ...


def no_answer(host: str, command: Command, timeout: float) -> HostError:
    """The error for a command that did not end within `timeout` seconds."""
    return HostError(host, f"no answer within {timeout:g} s from: {command.line()}")


def negative_signal(status: int) -> int:
    """An exit status of a shell or of docker in this project's form: negative for an end by a signal."""
    return SIGNALLED - status if status > SIGNALLED else status


def logged(method: Method) -> Method:
    """Make a transport's `run` or `start` log each command, its outcome, and the seconds that it took."""

    @functools.wraps(method)
    async def do(self: Transport, command: Command, **options: Any) -> Completed | Process:
        began, outcome = time.monotonic(), "failed"
        try:
            result: Completed | Process = await method(self, command, **options)
            outcome = f"exit status {result.exit_status}" if isinstance(result, Completed) else "started"
            return result
        finally:
            text = " ".join(shlex.join(command.argv).split())[:LOGGED]
            log.debug("%s: %s after %.3f s: %s", self.host, outcome, time.monotonic() - began, text)

    return cast(Method, do)
