"""Jobs in Slurm's queue that launchers of this user asked for."""

from __future__ import annotations

from flagperf.hosts.leftovers import OwnerState, owner_state
from flagperf.schedulers.slurm.commands import ask
from flagperf.schedulers.slurm.request import PREFIX, SUBMITTED


async def launcher_jobs() -> dict[str, OwnerState]:
    """ID → state of the launcher, of all jobs that a launcher of this user asked for.

    Submitted jobs are left out, because they need no launcher.

    Raises:
        HostError: the controller does not answer.
    """
    lines = (await ask("squeue", "--noheader", "--me", "-o", "%A|%k")).splitlines()
    comments = (line.split("|", 1) for line in lines if "|" in line)
    owners = {job: comment.removeprefix(f"{PREFIX} ") for job, comment in comments if comment.startswith(f"{PREFIX} ")}
    return {job: owner_state(owner) for job, owner in owners.items() if owner != SUBMITTED}


async def cancel_dead() -> list[str]:
    """Cancel the jobs of dead launchers, and return their IDs."""
    dead = [job for job, state in (await launcher_jobs()).items() if state == "dead"]
    if dead:
        await ask("scancel", *dead)
    return dead
