"""The final state of a Slurm job, for a report after the run: the launcher in the job ends before the job does."""

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

JOB = re.compile(r"Slurm job (\d+)")  # the host of a failure of the whole job


def with_final_states(folder: Path, summaries: Sequence[Summary]) -> tuple[Summary, ...]:
    """The jobs of a run with Slurm's final state, if known, in place of "it is being ended".

    Args:
        folder: of the run. An earlier report may have a state that Slurm has forgotten.
    """
    return tuple(
        replace(job, results=tuple(_with_final_state(result, folder / job.name) for result in job.results))
        for job in summaries
    )


def _with_final_state(result: Result, job: Path) -> Result:
    failure = result.failure
    if failure is None or UNSETTLED not in failure.cause or not (number := JOB.fullmatch(failure.host or "")):
        return result
    cause = _reported_cause(result.round, job)
    if cause is None and (state := asyncio.run(final_ending(number[1]))):
        cause = failure.cause.replace(UNSETTLED, state)
    if cause is None:
        return result
    reasons = tuple(reason.replace(failure.cause, cause) for reason in result.reasons)
    return replace(result, failure=replace(failure, cause=cause), reasons=reasons)


def _reported_cause(number: int, job: Path) -> str | None:
    """The final cause in summary.json of an earlier report; None: no final cause."""
    try:
        failure = next((result.failure for result in summary.read(job).results if result.round == number), None)
    except (ConfigError, OSError):
        return None
    return failure.cause if failure and UNSETTLED not in failure.cause else None
