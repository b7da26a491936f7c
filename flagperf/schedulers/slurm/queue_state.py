"""The state of a submitted run's job in Slurm's queue, before the run begins."""

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


async def queue_state_of_run(folder: Path) -> str:
    """The state of the run's job, as "is queued: …"; "" where Slurm does not answer.

    Raises:
        NeverBegan: the job is over, or can never begin.
        ConfigError: the folder does not name the job.
    """
    note = submitted(folder)
    try:
        return await queue_state(note.number)
    except NeverBegan as error:
        if not is_awaited(folder):  # the run has begun in the meantime
            return ""
        logs = [str(path) for path in (folder / note.log, folder.parent / note.log) if path.exists()]
        advice = f"read {logs[0]}" if logs else "give the command again, with another run_name"
        raise NeverBegan(error.host, error.problem, advice=error.advice or advice) from None
    except HostError:
        return ""


async def queue_state(job: str) -> str:
    """The state of a job whose run has not begun.

    Args:
        job: ID; for a task of an array both numbers: 12_3.

    Raises:
        NeverBegan: the job is over, can never begin, or Slurm has forgotten it.
        HostError: Slurm does not answer.
    """
    fields = await job_fields(job)
    state = fields.get("JobState", "")
    if state == "PENDING":
        text = await waiting_text(job)
        if never := never_satisfiable(text):
            problem, advice = f"the run never begins: {never.sentence}", f"scancel {job}, then {never.advice}"
            raise NeverBegan(f"{SLURM} job {job}", problem, advice=advice)
        return text
    if state in BEGINS:
        return f"has nodes ({state}), and flagperf begins"
    state = await with_canceller(state, job)
    reason = ending(state, fields) + ("" if state or "_" not in job else FORGOTTEN)
    raise NeverBegan(f"{SLURM} job {job}", f"the run never began: {reason}")


async def waiting_text(job: str) -> str:
    """Position, reason and estimated start of a job in the queue; "" where the job does not wait."""
    line = (await ask("squeue", "--noheader", f"--jobs={job}", "-o", "%T|%r|%S|%P|%A")).partition("\n")[0]
    state, reason, start, partition, number = line.split("|") if line.count("|") == 4 else ("", "", "", "", "")
    if state != "PENDING":
        return ""
    waiting = (
        await ask("squeue", "--noheader", f"--partition={partition}", "--states=PENDING", "--sort=-p,i", "-o", "%A")
    ).split()
    position = f"position {waiting.index(number) + 1} of {len(waiting)} in {partition}, " if number in waiting else ""
    begins = "unknown" if start in ("N/A", "") else start.replace("T", " ")
    return f"is queued: {position}reason {reason}, estimated start {begins}"
