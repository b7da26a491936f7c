"""Reads the clock of a host over ssh."""

from __future__ import annotations

import asyncio

import asyncssh

from flagperf.errors import HostError
from flagperf.hosts.clock import clock_offset
from flagperf.hosts.shell import script, shell
from flagperf.hosts.ssh.connection import SshConnection

CLOCK = shell(script(__file__, "clock.sh"))
LOOK = "look into the start-up files of the user's shell there (.bashrc)"


async def offset_and_shell(connection: SshConnection) -> tuple[float, asyncssh.SSHClientProcess[str]]:
    """Seconds by which the host's clock is ahead of the launcher's, and the shell that printed the time.

    The shell can run one more command: a new session of ssh costs a host as much as a short command.

    Raises:
        HostError: the host does not print its time.
    """
    channel = await connection.channel(CLOCK.argv)

    async def read() -> float:
        answer = ""
        try:
            channel.stdin.write("\n")
            answer = await asyncio.wait_for(channel.stdout.readline(), connection.timeout)
            return float(answer)
        except asyncio.TimeoutError:
            problem = f"no command starts within {connection.timeout:g} s"
            raise HostError(connection.host, problem, advice=LOOK) from None
        except (OSError, ValueError):
            user = (await connection.established()).get_extra_info("username")
            raise _bad_shell(connection.host, user, answer) from None

    try:
        return await clock_offset(read), channel
    except HostError:
        channel.close()
        await channel.wait_closed()
        raise


def _bad_shell(host: str, user: str, answer: str) -> HostError:
    """The error for a login shell that ends, or that prints unexpected text."""
    if not answer:
        return HostError(host, f"the shell of {user} ends before it runs a command", advice=LOOK)
    problem = f"the shell of {user} prints in non-interactive logins: {answer.strip()}"
    return HostError(host, problem, advice="make it silent: let its start-up file (.bashrc) print only if [ -t 1 ]")
