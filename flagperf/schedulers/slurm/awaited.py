"""A run that was submitted and has not begun: what Slurm says of its job."""

from __future__ import annotations

from pathlib import Path

from flagperf.errors import HostError
from flagperf.run.folder import is_awaited, submitted
from flagperf.schedulers.interface import NeverBegan
from flagperf.schedulers.slurm.commands import SLURM, ask
from flagperf.schedulers.slurm.job import GOES_ON, ending, job_fields, with_canceller
from flagperf.schedulers.slurm.never_satisfiable import never_satisfiable

BEGINS = (*GOES_ON, "COMPLETING", "SUSPENDED", "REQUEUED")  # states of a job that has, or had, nodes
FORGOTTEN = "; a task of an array that is cancelled while it waits is forgotten at once"


async def standing_of_run(folder: Path) -> str:
    """What Slurm says of the run's job, as "is queued: …"; nothing where it cannot be asked.

    Raises:
        NeverBegan: it is over, or waits in vain.
        ConfigError: the folder does not say which job it is.
    """
    note = submitted(folder)
    try:
        return await standing(note.number)
    except NeverBegan as error:
        if not is_awaited(folder):  # it has begun since it was looked for
            return ""
        logs = [str(path) for path in (folder / note.log, folder.parent / note.log) if path.exists()]
        advice = f"look into {logs[0]}" if logs else "give the command again, with another run_name"
        raise NeverBegan(error.host, error.problem, advice=error.advice or advice) from None
    except HostError:
        return ""


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
        if never := never_satisfiable(text):
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
