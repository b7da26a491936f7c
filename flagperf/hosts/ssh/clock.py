"""How far a host's clock is from the launcher's."""

from __future__ import annotations

import asyncio
import time

import asyncssh

from flagperf.errors import HostError
from flagperf.hosts.shell import script, shell
from flagperf.hosts.ssh.connection import SshConnection

CLOCK = shell(script(__file__, "clock.sh"))
LOOK = "look into the start-up files of the user's shell there (.bashrc)"
LOOKS = 5  # at the clock, at most; the quickest answer counts
QUICK = 0.05  # seconds of an answer that is quick enough to be the last; half of them are its error


async def clock_offset(connection: SshConnection) -> tuple[float, asyncssh.SSHClientProcess[str]]:
    """Seconds that the host's clock is ahead of the launcher's, and the shell that told so.

    The shell waits for the line of one command: a session of ssh costs a host as much as what a short command does.

    The host is asked for its time, which it is taken to have told in the middle of the round trip (Cristian's
    algorithm, 1989). The error is at most half of the quickest round trip.

    Raises:
        HostError: the host does not tell its time.
    """
    channel = await connection.channel(CLOCK.argv)
    found = []
    told = ""
    try:
        for _ in range(LOOKS):
            asked, began = time.time(), time.monotonic()
            channel.stdin.write("\n")
            told = await asyncio.wait_for(channel.stdout.readline(), connection.timeout)
            trip = time.monotonic() - began
            found.append((trip, float(told) - asked - trip / 2))
            if trip < QUICK:
                break
        return min(found)[1], channel
    except asyncio.TimeoutError:
        problem = HostError(connection.host, f"no command starts within {connection.timeout:g} s", advice=LOOK)
    except (OSError, ValueError):
        user = (await connection.established()).get_extra_info("username")
        problem = _bad_shell(connection.host, user, told)
    channel.close()
    await channel.wait_closed()
    raise problem


def _bad_shell(host: str, user: str, told: str) -> HostError:
    """The error for a login shell that says something else than what it was asked."""
    if not told:
        return HostError(host, f"the shell of {user} ends before it runs a command", advice=LOOK)
    problem = f"the shell of {user} prints in non-interactive logins: {told.strip()}"
    return HostError(host, problem, advice="make it silent: let its start-up file (.bashrc) print only if [ -t 1 ]")
