"""Everything the launcher does on a host goes through a Transport, so that one executor drives local and ssh hosts.

`flagperf.hosts.local` is this machine, `flagperf.hosts.ssh.transport` another one, `flagperf.hosts.connect` chooses.
Neither leaves anything running: a process ends when it is stopped, when its transport closes, and when the launcher
dies.
"""

from __future__ import annotations

import functools
import logging
import shlex
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from flagperf.contract.command import Command
from flagperf.contract.outcome import Outage

READ_SIZE = 1 << 20  # bytes that one `read` gives at most …
LEAST_READ = 1 << 16  # … and at least, where a file has more
MOST_CLOCK = 1.0  # seconds between a host's clock and the launcher's, from which on people are told
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
        """Why it ended or hangs, beyond the exit status, such as "out of memory"; None where nothing is known.

        Raises HostError when its host, or the docker daemon there, is lost.
        """
        ...


class Transport(Protocol):
    """One host. Used as `async with transport:`, which connects and at the end stops what still runs.

    Every method raises HostError when the host cannot be reached (any more).
    """

    host: str  # the name that messages and folders use
    address: str  # where the other nodes reach it; known once connected
    local: bool  # this machine itself
    same_files: bool  # the launcher's paths lead to the same files there: nothing needs to be sent or collected
    python: str | None  # an interpreter that is known to be there, 3.8 or newer; None: there may be none
    linger: float | None  # seconds for which it goes on without a sign of the launcher; None: as long as that lives
    clock_offset: float  # seconds that its clock is ahead of the launcher's; known once connected
    outages: Sequence[Outage]  # so far

    async def __aenter__(self) -> Transport: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def check_held(self) -> None:
        """Raises HostError where a scheduler took the host away, with its reason."""
        ...

    async def run(self, command: Command, *, timeout: float, stdin: bytes = b"") -> Completed:
        """Run a short command to its end. Past `timeout` seconds it is killed and HostError raised."""
        ...

    async def start(self, command: Command, *, log: str, grace: float) -> Process:
        """Start a long command whose output is appended to the file `log` on the host.

        `grace`: seconds between SIGTERM and SIGKILL when it is stopped.
        """
        ...

    async def read(self, path: str, offset: int = 0) -> bytes:
        """The content of a file from `offset` on: READ_SIZE bytes at most, LEAST_READ where there are more.

        Empty while there is no such file, and where something else lies in its place.
        """
        ...

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or a folder of the launcher to the host; missing parents are made."""
        ...

    async def get(self, source: str, target: Path) -> Sequence[str]:
        """Copy a file or a folder of the host to the launcher, over what is there; missing parents are made.

        Returns the paths in the folder that were left out: links, pipes, sockets and devices.

        Raises FileNotFoundError where there is nothing.
        """
        ...

    def unix_socket(self, path: str) -> AbstractAsyncContextManager[str]:
        """A socket of this machine that leads to the host's unix socket `path`, while the block runs."""
        ...


def logged(method: Method) -> Method:
    """Make a transport's `run` or `start` log each command, its outcome, and the seconds that it took."""

    @functools.wraps(method)
    async def do(self: Transport, command: Command, **options: Any) -> Completed | Process:
        began, came = time.monotonic(), "failed"
        try:
            done: Completed | Process = await method(self, command, **options)
            came = f"exit status {done.exit_status}" if isinstance(done, Completed) else "started"
            return done
        finally:
            text = " ".join(shlex.join(command.argv).split())[:LOGGED]
            log.debug("%s: %s after %.3f s: %s", self.host, came, time.monotonic() - began, text)

    return cast(Method, do)
