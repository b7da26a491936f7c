"""Slurm's own commands on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from flagperf.errors import HostError

SLURM = "Slurm"  # in place of a host's name, in messages about no single host
ADVICE = "call flagperf on a login node of the cluster, where sinfo shows its partitions"
TIMEOUT = 30.0  # seconds for an answer of the controller


async def ask(*argv: str) -> str:
    """The output of a command of Slurm.

    Raises:
        HostError: the command failed, or is missing.
    """
    process = await spawn(*argv)
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(), TIMEOUT)
    except asyncio.TimeoutError:
        raise HostError(SLURM, f"no answer within {TIMEOUT:g} s from: {' '.join(argv)}", advice=ADVICE) from None
    finally:
        kill(process)
    if process.returncode != 0:
        raise HostError(SLURM, f"{argv[0]}: {one_line((stderr or stdout).decode(errors='replace'))}")
    return stdout.decode(errors="replace")


async def spawn(*argv: str, limit: int = 1 << 16) -> asyncio.subprocess.Process:
    """Start a command in a session of its own, so that Ctrl-C does not reach it.

    Raises:
        HostError: this machine has no such command.
    """
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, limit=limit, start_new_session=True
        )
    except FileNotFoundError:
        raise HostError(SLURM, f"this machine has no {argv[0]}", advice=ADVICE) from None


def kill(process: asyncio.subprocess.Process, number: int = signal.SIGKILL) -> None:
    """Send a signal to a running command and to all processes that it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):  # the command has ended, but asyncio does not know yet
            os.killpg(process.pid, number)


def one_line(stderr: str) -> str:
    """The error output of a command of Slurm in one line, without the command's name."""
    lines = (line.partition(": ")[2] or line for line in stderr.strip().splitlines())
    return "; ".join(line.removeprefix("error: ") for line in lines) or "no reason given"
