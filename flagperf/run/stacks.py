"""Where ranks hang: their Python stacks, which Python's faulthandler writes to each rank's log on SIGABRT.

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

FRAME = re.compile(r'^  File ".*", line \d+ in .*$', re.MULTILINE)


async def write_stacks(transport: Transport, log_dir: str) -> None:
    """Abort the ranks of a node that log there, so that each writes its stack to its log. A lost host is ignored."""
    command = Command(("sh", "-s", "--", log_dir, str(SETTLE)))
    try:
        await transport.run(command, timeout=TIMEOUT, stdin=ABORT.encode())
    except HostError:
        return  # whoever reads its logs reports that it is lost


def stack(log: str) -> tuple[str, ...]:
    """The main thread's stack at the end of a rank's log, innermost frame first; empty where it wrote none."""
    _, found, dump = log.rpartition("\nCurrent thread ")
    return tuple(FRAME.findall(dump.partition("\n\n")[0])) if found else ()


def stuck(logs: Mapping[int, str], waiting: Iterable[str]) -> int | None:
    """The one rank that does not wait for the others; None where there is no such rank, or more than one.

    `waiting`: regular expressions, which find a frame of a rank that waits.

    A rank without a stack, where the others have one, is frozen: it waits for nobody.
    """
    stacks = {rank: stack(log) for rank, log in logs.items()}
    if not any(stacks.values()):
        return None
    waits = re.compile("|".join(waiting) or "(?!)")  # no expression finds nothing
    own = [rank for rank, frames in stacks.items() if not any(waits.search(frame) for frame in frames)]
    return own[0] if len(own) == 1 else None
