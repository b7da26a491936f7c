"""Finds and removes the folders of dead runs on a host. flagperf.docker.leftovers does the same for containers.

Each folder names its owner: a process of a machine. Only folders of dead owners are removed. A folder with logs that
were not collected has no owner. It stays until `flagperf report RUN_DIR collect=true` has collected the logs.
The folder of a long command (flagperf.hosts.ssh.process) is dead when nobody holds its two locks. The launcher holds
one lock, the guard holds the other.
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
REMOVE_DEAD = script(__file__, "remove_dead.sh")
FOLDER_STATE = OWN_FOLDER + script(__file__, "folder_state.sh")
TIMEOUT = 60.0  # seconds

OwnerState = Literal["this", "alive", "dead", "elsewhere"]
FolderState = Literal["kept", "this", "alive", "dead", "elsewhere"]  # kept: the folder has logs that were not collected

log = logging.getLogger(__name__)


def this_owner() -> str:
    """A unique name of this process: host name, boot, pid and start time."""
    return _owner(os.getpid())


def owner_state(owner: str) -> OwnerState:
    """The state of an owner; "elsewhere" for a process of another machine, whose state is unknown."""
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
    """Create a folder in the work_dir of a host for this process. No other user may read the folder.

    Raises:
        HostError: the folder cannot be created, belongs to another run, or another user could change its content.
    """
    await _in_work_dir(transport, f"cannot make {folder}", shell(CLAIM, folder, this_owner()))


async def claimed_folders(
    transport: Transport, work_dir: str, *, make: bool = False, claims: Completed | None = None
) -> dict[str, FolderState]:
    """The folders of runs on a host, with the states of their owners.

    Args:
        make: create a missing work_dir.
        claims: the host's answer in `Facts.claims`; None: ask the host now.

    Raises:
        HostError: another user could change the content of work_dir.
    """
    problem, command = f"cannot use {work_dir}", shell(CLAIMED, work_dir, "make" if make else "")
    if claims is None:
        claims = await transport.run(command, timeout=TIMEOUT)
    parts = _require_success(transport, problem, claims).stdout.split("\0")  # a path may contain any other character
    owners = zip(parts[::2], parts[1::2], strict=False)
    return {
        str(PurePosixPath(file).parent): "kept" if owner == "kept" else owner_state(owner) for owner, file in owners
    }


async def _in_work_dir(transport: Transport, problem: str, command: Command) -> Completed:
    return _require_success(transport, problem, await transport.run(command, timeout=TIMEOUT))


def _require_success(transport: Transport, problem: str, completed: Completed) -> Completed:
    if completed.exit_status is None:  # no fault of the folder
        raise HostError(transport.host, f"{problem}: the connection, or sshd's session, ended before the answer")
    if completed.exit_status != 0:
        advice = "set cluster.work_dir to a new folder such as /var/tmp/flagperf: flagperf makes it for this user alone"
        raise HostError(transport.host, f"{problem}: {completed.stderr.strip()}", advice=advice)
    return completed


async def remove_dead_folders(
    transport: Transport, work_dir: str, *, make: bool = False, claims: Completed | None = None
) -> dict[str, bool]:
    """Remove the folders of dead runs. `make` and `claims` are those of `claimed_folders`.

    Returns:
        The folders, with false for those that this user may not remove.
    """
    claimed = await claimed_folders(transport, work_dir, make=make, claims=claims)
    dead = [path for path, state in claimed.items() if state == "dead"]
    if not dead:
        return {}
    log.warning("%s: removing %s, left behind by runs that died", transport.host, ", ".join(dead))
    staying = (await transport.run(shell(REMOVE_DEAD, *dead), timeout=TIMEOUT)).stdout.split("\0")
    return {path: path not in staying for path in dead}


async def keep(transport: Transport, folder: str, case: str) -> None:
    """Keep a run's folder on a host until its logs are collected. Only its folder `case` is kept.

    Raises:
        HostError: the folder cannot be kept.
    """
    completed = await transport.run(shell(KEEP, folder, case), timeout=TIMEOUT)
    if completed.exit_status != 0:
        raise HostError(transport.host, f"{folder} cannot be kept: {completed.stderr.strip()}")


async def folder_state(transport: Transport, folder: str) -> Literal["kept", "nothing"] | OwnerState:
    """The state of a run's folder on a host. "kept" and "dead" can be collected; "nothing": no folder.

    Raises:
        HostError: another user could change the content of work_dir.
    """
    answer = (await _in_work_dir(transport, f"cannot use {folder}", shell(FOLDER_STATE, folder))).stdout.strip()
    return "nothing" if not answer else "kept" if answer == "kept" else owner_state(answer)


def advice(folders: Sequence[str]) -> str:
    """The advice for folders whose logs were not collected."""
    remove = shlex.join(("rm", "-rf", *folders))
    return f"flagperf report RUN_DIR collect=true collects the logs; to discard them, run there: {remove}"


async def dead_process_folders(transport: Transport) -> list[str]:
    """Folders of long commands whose launcher and guard have ended."""
    return await _dead_process_folders(transport, "test", "-d")


async def remove_dead_process_folders(transport: Transport) -> list[str]:
    """Remove the folders of long commands whose launcher and guard have ended, and return them."""
    return await _dead_process_folders(transport, "rm", "-rf")


async def _dead_process_folders(transport: Transport, *action: str) -> list[str]:
    completed = await transport.run(shell(DEAD_PROCESSES, *action), timeout=TIMEOUT)
    return completed.stdout.splitlines()
