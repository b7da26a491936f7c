"""What runs leave on a host when their launcher dies: folders, here; containers, in flagperf.docker.leftovers.

Each says who its owner is: which process of which machine. Only what belongs to a dead owner is removed. A folder
whose logs could not be collected has no owner: it stays until `flagperf report RUN_DIR collect=true` has brought them.
The folder of a long command (flagperf.hosts.ssh.process) is dead when nobody holds its locks: its launcher holds one,
its guard the other.
"""

from __future__ import annotations

import logging
import os
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from flagperf.contract.command import Command
from flagperf.errors import HostError
from flagperf.hosts.shell import OURS, OWN_FOLDER, script, shell
from flagperf.hosts.transport import Completed, Transport

CLAIM, CLAIMED = (OWN_FOLDER + script(__file__, name) for name in ("claim.sh", "claimed.sh"))
DEAD_PROCESSES = OURS + script(__file__, "dead_processes.sh")
KEEP = script(__file__, "keep.sh")
WHAT_IS_KEPT = OWN_FOLDER + script(__file__, "what_is_kept.sh")
TIMEOUT = 60.0  # seconds

OwnerState = Literal["this", "alive", "dead", "elsewhere"]
FolderState = Literal["kept", "this", "alive", "dead", "elsewhere"]  # kept: logs that were not collected lie there

log = logging.getLogger(__name__)


def this_owner() -> str:
    """The name of this process, which no other process of any machine has: host name, boot, pid and start time."""
    return _owner(os.getpid())


def owner_state(owner: str) -> OwnerState:
    """What has become of an owner; "elsewhere" for one of another machine, of which nothing is known."""
    parts = owner.split()
    if owner == this_owner():
        return "this"
    if len(parts) != 4 or parts[0] != socket.gethostname():
        return "elsewhere"
    try:
        return "alive" if _owner(int(parts[2])) == owner else "dead"
    except (OSError, ValueError):
        return "dead"


def _owner(pid: int) -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]  # clock ticks after boot
    return f"{socket.gethostname()} {boot} {pid} {started}"


async def claim(transport: Transport, folder: str) -> None:
    """Make a folder in the work_dir of a host that belongs to this process. Nobody else may read it.

    Raises:
        HostError: it cannot be made, is another run's, or another user could reach into it.
    """
    await _in_work_dir(transport, f"cannot make {folder}", shell(CLAIM, folder, this_owner()))


async def claimed_folders(
    transport: Transport, work_dir: str, *, make: bool = False, told: Completed | None = None
) -> dict[str, FolderState]:
    """Folders that runs claimed on a host, with what has become of their owners, and those that were kept.

    Args:
        make: make work_dir where it is not there.
        told: what the host has just told (`Facts.claims`); None: it is asked.

    Raises:
        HostError: another user could reach into work_dir.
    """
    problem, command = f"cannot use {work_dir}", shell(CLAIMED, work_dir, "make" if make else "")
    done = _used(transport, problem, told) if told else await _in_work_dir(transport, problem, command)
    parts = done.stdout.split("\0")  # a path may hold any other character
    owners = zip(parts[::2], parts[1::2], strict=False)
    return {
        str(PurePosixPath(file).parent): "kept" if owner == "kept" else owner_state(owner) for owner, file in owners
    }


async def _in_work_dir(transport: Transport, problem: str, command: Command) -> Completed:
    return _used(transport, problem, await transport.run(command, timeout=TIMEOUT))


def _used(transport: Transport, problem: str, done: Completed) -> Completed:
    if done.exit_status != 0:
        advice = "give work_dir of the cluster a place below folders that only root and this user may write to"
        raise HostError(transport.host, f"{problem}: {done.stderr.strip()}", advice=advice)
    return done


async def remove_dead_folders(
    transport: Transport, work_dir: str, *, make: bool = False, told: Completed | None = None
) -> list[str]:
    """Remove the folders of runs that died, and return them. `make` and `told`: as for `claimed_folders`."""
    claimed = await claimed_folders(transport, work_dir, make=make, told=told)
    dead = [path for path, state in claimed.items() if state == "dead"]
    if dead:
        log.warning("%s: removing %s, left behind by runs that died", transport.host, ", ".join(dead))
        await transport.run(Command(("rm", "-rf", *dead)), timeout=TIMEOUT)
    return dead


async def keep(transport: Transport, folder: str, case: str) -> None:
    """Keep a run's folder on a host until it is collected, with what lies in its folder `case` alone.

    Raises:
        HostError: it cannot be kept.
    """
    done = await transport.run(shell(KEEP, folder, case), timeout=TIMEOUT)
    if done.exit_status != 0:
        raise HostError(transport.host, f"{folder} cannot be kept: {done.stderr.strip()}")


async def kept(transport: Transport, folder: str) -> Literal["kept", "nothing"] | OwnerState:
    """What a run left in its folder on a host: "kept" and "dead" can be collected; "nothing": there is none.

    Raises:
        HostError: another user could reach into work_dir.
    """
    found = (await _in_work_dir(transport, f"cannot use {folder}", shell(WHAT_IS_KEPT, folder))).stdout.strip()
    return "nothing" if not found else "kept" if found == "kept" else owner_state(found)


def advice(kept: Sequence[str]) -> str:
    """What to do about folders whose logs were not collected."""
    remove = shlex.join(("rm", "-rf", *kept))
    return f"flagperf report RUN_DIR collect=true brings the logs; to give them up, there: {remove}"


async def dead_process_folders(transport: Transport) -> list[str]:
    """Folders of long commands whose launcher and guard are gone."""
    return await _dead_process_folders(transport, "test", "-d")


async def remove_dead_process_folders(transport: Transport) -> list[str]:
    """Remove the folders of long commands whose launcher and guard are gone, and return them."""
    return await _dead_process_folders(transport, "rm", "-rf")


async def _dead_process_folders(transport: Transport, *action: str) -> list[str]:
    done = await transport.run(shell(DEAD_PROCESSES, *action), timeout=TIMEOUT)
    return done.stdout.splitlines()
