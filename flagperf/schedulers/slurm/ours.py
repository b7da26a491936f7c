"""Jobs of ours in Slurm's queue whose launcher is gone."""

from __future__ import annotations

from flagperf.hosts.leftovers import OwnerState, owner_state
from flagperf.schedulers.slurm.commands import ask
from flagperf.schedulers.slurm.request import OURS, SUBMITTED


async def our_jobs() -> dict[str, OwnerState]:
    """The user's jobs that a launcher asked for, by id, with what has become of that launcher.

    Those that were submitted are not among them: they need no launcher here.

    Raises:
        HostError: the controller does not answer.
    """
    lines = (await ask("squeue", "--noheader", "--me", "-o", "%A|%k")).splitlines()
    comments = (line.split("|", 1) for line in lines if "|" in line)
    owners = {job: comment.removeprefix(f"{OURS} ") for job, comment in comments if comment.startswith(f"{OURS} ")}
    return {job: owner_state(owner) for job, owner in owners.items() if owner != SUBMITTED}


async def cancel_dead() -> list[str]:
    """Cancel those whose launcher is dead, and return them."""
    dead = [job for job, state in (await our_jobs()).items() if state == "dead"]
    if dead:
        await ask("scancel", *dead)
    return dead
