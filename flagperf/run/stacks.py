"""Finds where ranks hang, by their Python stacks. Python's faulthandler writes a stack to a rank's log on SIGABRT.

The plan sets PYTHONFAULTHANDLER for the ranks, so that a crash leaves its stack in the log in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts.shell import MARKED, script
from flagperf.hosts.transport import Transport

TIMEOUT = 10.0  # seconds
SETTLE = 0.3  # seconds for the stacks to be written

ABORT = MARKED + script(__file__, "abort_ranks.sh")

TRACEBACK = "Traceback (most recent call last):"
TRACEBACK_LINES = 7  # lines of a traceback that are shown
FRAME = re.compile(r'^  File ".*", line \d+ in .*$', re.MULTILINE)


async def write_stacks(transport: Transport, log_dir: str) -> None:
    """Abort a node's ranks, so that each writes its stack to its log in `log_dir`. A lost host is ignored."""
    command = Command(("sh", "-s", "--", log_dir, str(SETTLE)))
    try:
        await transport.run(command, timeout=TIMEOUT, stdin=ABORT.encode())
    except HostError:
        return  # reading its logs will report the loss


def stack(log: str) -> tuple[str, ...]:
    """The main thread's stack at the end of a rank's log, innermost frame first; empty without a stack."""
    _, marker, dump = log.rpartition("\nCurrent thread ")
    return tuple(FRAME.findall(dump.partition("\n\n")[0])) if marker else ()


def last_traceback(log: str) -> tuple[str, ...]:
    """The end of the last traceback in a rank's log; empty without one. Its exception may have ended a thread only."""
    _, begin, rest = log.rpartition(f"\n{TRACEBACK}") if f"\n{TRACEBACK}" in log else log.rpartition(TRACEBACK)
    lines = rest.splitlines()[1:] if begin else []
    length = next((number for number, line in enumerate(lines, 1) if line[:1].strip()), len(lines))
    return tuple(line for line in lines[:length] if line.strip())[-TRACEBACK_LINES:]


def stuck(logs: Mapping[int, str], waiting: Iterable[str]) -> int | None:
    """The only rank that does not wait for the others; None where no rank or several ranks do not wait.

    A frozen rank has no stack, and counts as a rank that does not wait.

    Args:
        waiting: regular expressions for a frame of a waiting rank.
    """
    stacks = {rank: stack(log) for rank, log in logs.items()}
    if not any(stacks.values()):
        return None
    waits = re.compile("|".join(waiting) or "(?!)")  # without expressions: match no frame
    running = [rank for rank, frames in stacks.items() if not any(waits.search(frame) for frame in frames)]
    return running[0] if len(running) == 1 else None
