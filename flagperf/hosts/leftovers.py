"""What runs leave on a host when their launcher dies: folders, here; containers, in flagperf.docker.runtime.

A run folder holds a file that names its owner; only what belongs to an owner that is dead is removed. The folder of a
long command (flagperf.hosts.ssh.process) is dead when nobody holds its locks: one is its launcher's, one its guard's.
"""

from __future__ import annotations

import logging
from pathlib import PurePosixPath

from flagperf.command import Command
from flagperf.errors import HostError
from flagperf.hosts import owner
from flagperf.hosts.shell import script, shell
from flagperf.hosts.transport import Transport

OWNER = ".owner"
TIMEOUT = 60.0  # seconds

CLAIM, CLAIMED, DEAD_PROCESSES = (script(__file__, f"{name}.sh") for name in ("claim", "claimed", "dead_processes"))

log = logging.getLogger(__name__)


async def claim(transport: Transport, run_folder: str) -> None:
    """Make a run's folder on a host and say whose it is. Nobody else may read it."""
    done = await transport.run(shell(CLAIM, run_folder, owner.myself()), timeout=TIMEOUT)
    if done.exit_status != 0:
        advice = "give work_dir of the cluster a place that this user may write to"
        raise HostError(transport.host, f"cannot make {run_folder}: {done.stderr.strip()}", advice=advice)


async def folders(transport: Transport, work_dir: str) -> dict[str, owner.State]:
    """Run folders on a host, with what has become of their owners."""
    done = await transport.run(shell(CLAIMED, work_dir), timeout=TIMEOUT)
    words = done.stdout.split("\0")  # a path may hold anything else
    return {str(PurePosixPath(path).parent): owner.state(by) for by, path in zip(words[::2], words[1::2], strict=False)}


async def remove_dead_folders(transport: Transport, work_dir: str) -> list[str]:
    """Remove the folders of runs that died; returns them."""
    dead = [path for path, state in (await folders(transport, work_dir)).items() if state == "dead"]
    if dead:
        log.warning("%s: removing %s, left behind by runs that died", transport.host, ", ".join(dead))
        await transport.run(Command(("rm", "-rf", *dead)), timeout=TIMEOUT)
    return dead


async def dead_process_folders(transport: Transport) -> list[str]:
    """Folders of long commands whose launcher and guard are gone."""
    return await _dead_process_folders(transport, "test", "-d")


async def remove_dead_process_folders(transport: Transport) -> list[str]:
    """Remove them; returns them."""
    return await _dead_process_folders(transport, "rm", "-rf")


async def _dead_process_folders(transport: Transport, *action: str) -> list[str]:
    done = await transport.run(shell(DEAD_PROCESSES, *action), timeout=TIMEOUT)
    return done.stdout.splitlines()
