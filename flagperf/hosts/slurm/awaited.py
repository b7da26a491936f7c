"""A run that was submitted and has not begun: what Slurm says of its job."""

from __future__ import annotations

from flagperf.errors import HostError
from flagperf.hosts.slurm.commands import SLURM, ask
from flagperf.hosts.slurm.hopeless import hopeless
from flagperf.hosts.slurm.job import GOES_ON, ending, job_fields, with_canceller

BEGINS = (*GOES_ON, "COMPLETING", "SUSPENDED", "REQUEUED")  # states of a job that has, or had, nodes
FORGOTTEN = "; a task of an array that is cancelled while it waits is forgotten at once"


class NeverBegan(HostError):
    """The job is over, or waits in vain, and the run in it has not begun."""


async def standing(job: str) -> str:
    """How the job of a run stands that has not begun.

    Args:
        job: its id; of a task of an array both numbers, 12_3.

    Raises:
        NeverBegan: it is over, waits in vain, or Slurm has forgotten it.
        HostError: Slurm cannot be asked.
    """
    fields = await job_fields(job)
    state = fields.get("JobState", "")
    if state == "PENDING":
        text = await queued(job)
        if never := hopeless(text):
            problem, advice = f"the run never begins: {never.sentence}", f"scancel {job}, then {never.advice}"
            raise NeverBegan(f"{SLURM} job {job}", problem, advice=advice)
        return text
    if state in BEGINS:
        return f"has nodes ({state}), and flagperf begins"
    state = await with_canceller(state, job)
    why = ending(state, fields) + ("" if state or "_" not in job else FORGOTTEN)
    raise NeverBegan(f"{SLURM} job {job}", f"the run never began: {why}")


async def queued(job: str) -> str:
    """How a job stands in the queue; nothing where it does not wait."""
    told = (await ask("squeue", "--noheader", f"--jobs={job}", "-o", "%T|%r|%S|%P|%A")).partition("\n")[0]
    state, reason, start, partition, number = told.split("|") if told.count("|") == 4 else ("", "", "", "", "")
    if state != "PENDING":
        return ""
    waiting = (
        await ask("squeue", "--noheader", f"--partition={partition}", "--states=PENDING", "--sort=-p,i", "-o", "%A")
    ).split()
    place = f"position {waiting.index(number) + 1} of {len(waiting)} in {partition}, " if number in waiting else ""
    begins = "unknown" if start in ("N/A", "") else start.replace("T", " ")
    return f"is queued: {place}reason {reason}, estimated start {begins}"
