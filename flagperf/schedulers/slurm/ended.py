"""What became of a job of Slurm after a run in it had told its end: its launcher ends before the job does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flagperf.contract.records import Result, Summary
from flagperf.errors import ConfigError
from flagperf.results import summary
from flagperf.schedulers.slurm.job import UNSETTLED, final_ending

JOB = re.compile(r"Slurm job (\d+)")  # who is named for what the job as a whole has met


def with_final_states(folder: Path, summaries: Sequence[Summary]) -> tuple[Summary, ...]:
    """The jobs of a run with Slurm's final state in place of "it is being ended", where that is known.

    Args:
        folder: of the run; a report that was made earlier knows what Slurm may have forgotten since.
    """
    return tuple(
        replace(job, results=tuple(_settled(result, folder / job.name) for result in job.results)) for job in summaries
    )


def _settled(result: Result, job: Path) -> Result:
    failure = result.failure
    if failure is None or UNSETTLED not in failure.cause or not (number := JOB.fullmatch(failure.host or "")):
        return result
    cause = _told_before(result.round, job)
    if cause is None and (why := asyncio.run(final_ending(number[1]))):
        cause = failure.cause.replace(UNSETTLED, why)
    if cause is None:
        return result
    reasons = tuple(reason.replace(failure.cause, cause) for reason in result.reasons)
    return replace(result, failure=replace(failure, cause=cause), reasons=reasons)


def _told_before(number: int, job: Path) -> str | None:
    """The final cause that an earlier report wrote into summary.json."""
    try:
        found = next((one.failure for one in summary.read(job).results if one.round == number), None)
    except (ConfigError, OSError):
        return None
    return found.cause if found and UNSETTLED not in found.cause else None
