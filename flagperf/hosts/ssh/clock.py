"""Measures the difference between a host's clock and the launcher's."""

from __future__ import annotations

import asyncio
import time

import asyncssh

from flagperf.errors import HostError
from flagperf.hosts.shell import script, shell
from flagperf.hosts.ssh.connection import SshConnection

CLOCK = shell(script(__file__, "clock.sh"))
LOOK = "look into the start-up files of the user's shell there (.bashrc)"
LOOKS = 5  # most readings of the clock; the quickest answer counts
QUICK = 0.05  # seconds; an answer within this time ends the readings. Its error is at most half of the time


async def clock_offset(connection: SshConnection) -> tuple[float, asyncssh.SSHClientProcess[str]]:
    """Seconds by which the host's clock is ahead of the launcher's, and the shell that printed the time.

    The shell can run one more command: a new session of ssh costs a host as much as a short command.

    The host's time is assumed to belong to the middle of the round trip (Cristian's algorithm, 1989). The error is at
    most half of the quickest round trip.

    Raises:
        HostError: the host does not print its time.
    """
    channel = await connection.channel(CLOCK.argv)
    readings = []
    answer = ""
    try:
        for _ in range(LOOKS):
            sent, began = time.time(), time.monotonic()
            channel.stdin.write("\n")
            answer = await asyncio.wait_for(channel.stdout.readline(), connection.timeout)
            trip = time.monotonic() - began
            readings.append((trip, float(answer) - sent - trip / 2))
            if trip < QUICK:
                break
        return min(readings)[1], channel
    except asyncio.TimeoutError:
        problem = HostError(connection.host, f"no command starts within {connection.timeout:g} s", advice=LOOK)
    except (OSError, ValueError):
        user = (await connection.established()).get_extra_info("username")
        problem = _bad_shell(connection.host, user, answer)
    channel.close()
    await channel.wait_closed()
    raise problem


def _bad_shell(host: str, user: str, answer: str) -> HostError:
    """The error for a login shell that ends, or that prints unexpected text."""
    if not answer:
        return HostError(host, f"the shell of {user} ends before it runs a command", advice=LOOK)
    problem = f"the shell of {user} prints in non-interactive logins: {answer.strip()}"
    return HostError(host, problem, advice="make it silent: let its start-up file (.bashrc) print only if [ -t 1 ]")
