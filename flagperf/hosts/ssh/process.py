"""A long command on a host. It survives a short loss of the ssh connection, but not the death of the launcher.

Four scripts work together on the host, in POSIX sh with util-linux's flock. The host needs no Python.

- `signals.sh` comes first: a shell that ignores signals from the start cannot trap them.
- `guard.sh` is the parent of the command. It ends after the command, and stops the command on SIGTERM.
- `hold.sh` is the channel to the launcher. It holds a shared lock on `lease` while a line arrives at least every LINGER
  seconds. It prints the exit status after the guard has ended. `start.sh` starts a guard and then becomes `hold.sh`.
- The guard's watcher stops the command when nobody has held the lease for LINGER seconds: the launcher was killed, or
  the connection stayed away.

Where the host has Python (hosts whose ranks run without a container do), the command runs below flagperf.hosts.guard,
which ends all of its descendants. On other hosts a variable in the environment marks the processes of the command. The
mark finds orphans and sessions, too, but no process that clears its environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from pathlib import Path
from typing import Any

from typing_extensions import override

from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts import guard
from flagperf.hosts.shell import MARKED, OURS, OWN_FOLDER, script, shell
from flagperf.hosts.ssh.connection import SshConnection
from flagperf.hosts.transport import Process, Transport, negative_signal

GUARD = MARKED + OURS + script(__file__, "guard.sh")
REAPER = Path(guard.__file__).read_text("utf-8")
START = OWN_FOLDER + script(__file__, "start.sh")
SIGNALS = script(__file__, "signals.sh")
HOLD, STOP = (OURS + script(__file__, name) for name in ("hold.sh", "stop.sh"))

BEATS = 4  # signs of life during LINGER seconds
GUARD_ENDED = "flagperf's guard there ended without an exit status: somebody killed it, or a limit (ulimit) ended it"
STOP_MARGIN = 10.0  # seconds that stopping may take after the grace period


class SshProcess(Process):
    """A long command, as a Process. `channel` leads to hold.sh; short commands use the host's transport."""

    def __init__(
        self, transport: Transport, connection: SshConnection, folder: str, channel: Any, grace: float
    ) -> None:
        self._transport, self._connection = transport, connection
        self._folder, self._channel, self._grace = folder, channel, grace
        self._ended: asyncio.Task[int | None] = asyncio.create_task(self._follow())
        self._beating = asyncio.create_task(self._beat())
        self._ended.add_done_callback(lambda _: self._beating.cancel())
        self._stopped = False
        self._without_status = False  # true: the guard ended without writing the exit status

    @classmethod
    async def start(
        cls, transport: Transport, connection: SshConnection, command: Command, log: str, grace: float
    ) -> SshProcess:
        """Start a command whose output is appended to the file `log`; `grace`: seconds from SIGTERM to SIGKILL."""
        assignments = (f"{name}={value}" for name, value in command.env.items())
        line = Command(("exec", "env", *assignments, *command.argv), cwd=command.cwd).line()
        starting = _with_signals(START, GUARD, REAPER, HOLD, log, linger(connection), str(math.ceil(grace * 10)), line)
        channel = await connection.channel(starting.argv)
        folder = (await channel.stdout.readline()).strip()
        if not folder:
            reason = str((await channel.wait()).stderr).strip() or "the connection was lost"
            raise HostError(connection.host, f"cannot start a command: {reason}")
        return cls(transport, connection, folder, channel, grace)

    @override
    async def wait(self) -> int | None:
        return await asyncio.shield(self._ended)

    @override
    async def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        if not self._ended.done():
            await self._transport.run(shell(STOP, self._folder), timeout=self._grace + STOP_MARGIN)
        await self.wait()

    @override
    async def reason(self) -> str | None:
        await self._connection.established()
        return GUARD_ENDED if self._without_status else None

    async def _beat(self) -> None:
        """Tell the host BEATS times in LINGER seconds that the launcher lives."""
        while True:
            await asyncio.sleep(self._connection.ssh.reconnect / BEATS)
            with contextlib.suppress(OSError):
                self._channel.stdin.write(".\n")

    async def _follow(self) -> int | None:
        """Wait for the exit status, over several connections if needed; None where the status is lost."""
        try:
            while (done := await self._channel.wait()).returncode is None:
                holding = _with_signals(HOLD, self._folder, linger(self._connection))
                self._channel = await self._connection.channel(holding.argv)
            await self._transport.run(Command(("rm", "-rf", self._folder)), timeout=STOP_MARGIN)
        except HostError:
            return None
        text = done.stdout.strip()
        self._without_status = not text.isdigit()
        return negative_signal(int(text)) if text.isdigit() else None


def _with_signals(script: str, *arguments: str) -> Command:
    """A shell that runs a script, also where the user's shell ignores signals."""
    return shell(SIGNALS, *shell(script, *arguments).argv)


def linger(connection: SshConnection) -> str:
    """Seconds for which a command outlives its connection."""
    return str(math.ceil(connection.ssh.reconnect))
