"""A run: all jobs of one command, each with its rounds, into one run folder."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from flagperf import report, result, run_folder, summary
from flagperf.errors import FlagperfError, InterruptedRunError
from flagperf.execute import execute
from flagperf.plan import make_plan
from flagperf.progress import Progress
from flagperf.run_log import run_log
from flagperf.schema import Outcome, Result, RunConfig, Summary

log = logging.getLogger(__name__)


async def run_jobs(jobs: Sequence[RunConfig], console: Console, began: float) -> int:
    """Run all jobs, one after another, and report them. A job that fails does not keep the next from running.

    `began`: when the command was given, in seconds since the epoch. The first round counts from then.

    Returns the exit code of the first job that did not end well, 0 when all did.

    Raises:
        FlagperfError: the only job of this run could not start.
    """
    folder = run_folder.create(jobs[0])
    summaries: list[Summary] = []
    codes: list[int] = []
    with run_log(folder, jobs[0].config["log_level"]):
        for number, job in enumerate(jobs, 1):
            _announce(job, f"job {number} of {len(jobs)}: " if len(jobs) > 1 else "", console)
            try:
                done = await _run_job(job, folder, console, began if number == 1 else None)
            except FlagperfError as error:
                if len(jobs) == 1:
                    raise
                console.print(f"flagperf: {error}", style="red", highlight=False, markup=False)
                log.error("%s: %s", job.name, error)
                done = _refused(job, folder, error)
                codes.append(error.exit_code)
            else:
                codes.append(_exit_code(done, job))
            summaries.append(done)
            paths = report.write(folder, summaries)
            if codes[-1] == InterruptedRunError.exit_code:
                break
    console.print(report.terminal_table(summaries))
    for path in paths:
        console.print(str(path), highlight=False, markup=False, soft_wrap=True)
    return next((code for code in codes if code), 0)


async def _run_job(job: RunConfig, folder: Path, console: Console, began: float | None) -> Summary:
    """All rounds of a job. A failed round does not keep the next from running; an interrupt does."""
    results: list[Result] = []
    for number in range(1, job.repeat + 1):
        if job.repeat > 1:
            console.print(f"round {number} of {job.repeat}", style="bold", highlight=False)
        with Progress(job, console) as progress:
            outcome = await execute(job, make_plan(job, number), folder, progress)
        if began is not None and number == 1:
            outcome = _since_command(outcome, began)
        results.append(_read(job, outcome, number))
        if outcome.status == "interrupted":
            break
    done = summary.summarize(job, results)
    summary.write(done, folder / job.name)
    return done


def _since_command(outcome: Outcome, began: float) -> Outcome:
    """The outcome of a round to which what came before it belongs, as its phase `compose`."""
    seconds = outcome.started - began
    phases = {node: {"compose": seconds, **found} for node, found in outcome.phases.items()}
    return dataclasses.replace(outcome, phases=phases, started=began, seconds=outcome.seconds + seconds)


def _read(job: RunConfig, outcome: Outcome, number: int) -> Result:
    read = result.read_round(job, outcome, number, outcome.folder)
    result.write(read, outcome.folder)
    return read


def _refused(job: RunConfig, folder: Path, error: FlagperfError) -> Summary:
    """The summary of a job that could not start, and its files, unless its folder belongs to a job that could."""
    case = folder / job.name
    there = case / "round1"
    read = result.result_of_logs(
        job.config, job.changes, 1, there, status="failed", failure=str(error), sweep=job.sweep
    )
    done = summary.summarize(job, [dataclasses.replace(read, started=time.time())])
    if not case.exists():
        result.write(done.results[0], there)
        run_folder.write_configuration(job, job.config, case)
        summary.write(done, case)
    return done


def _exit_code(done: Summary, job: RunConfig) -> int:
    if any(round_.status == "interrupted" for round_ in done.results):
        return InterruptedRunError.exit_code
    return result.exit_code([done], job.config["require_target"])


def _announce(job: RunConfig, prefix: str, console: Console) -> None:
    """Say what runs, with the notes of composition."""
    console.print(f"{prefix}{job.name}", style="bold", highlight=False, markup=False)
    for note in job.notes:
        log.info("%s", note)
        console.print(f"  {note}", style="dim", highlight=False, markup=False)
