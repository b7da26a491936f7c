"""All jobs of one `flagperf run`, each with its rounds, into one run folder."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex

from rich.console import Console

from flagperf import report
from flagperf.cli.auto_batch import with_found_size
from flagperf.cli.done_before import taken_over
from flagperf.cli.log import run_log
from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Failure, Outcome, refusal
from flagperf.contract.records import Result, Summary
from flagperf.errors import FlagperfError, InterruptedRunError
from flagperf.plan.plan import make_plan
from flagperf.results import result, summary
from flagperf.results.closed import objections
from flagperf.run import command_file
from flagperf.run import folder as run_folder
from flagperf.run.command_file import Command
from flagperf.run.console import Terminal
from flagperf.run.execute import execute
from flagperf.run.on_hosts import Hosts
from flagperf.run.progress import Progress
from flagperf.run.resume import with_checkpoints

log = logging.getLogger(__name__)


async def run_jobs(jobs: Sequence[JobConfig], console: Console, command: Command) -> int:
    """Run all jobs, one after another, and report them. After a failed job the next one runs.

    Of several jobs those are taken over that the run has done which they resume.

    The first round counts from when the command was given.

    Returns the exit code of the first job that did not end well, 0 when all did.

    Raises:
        ConfigError: a writer of reports, or the run folder, cannot be made.
    """
    report.make_writers(jobs[0].config)
    folder = run_folder.create(jobs[0])
    summaries: list[Summary] = []
    codes: list[int] = []
    with run_log(folder, jobs[0].log_level, console), run_folder.held(folder):
        command_file.keep(command, folder, [job.mask for job in jobs])
        for job in jobs:  # at once: whoever reads the folder knows of all of them
            run_folder.write_configuration(job, folder / job.name)
        async with Hosts(partial(_note, console)) as hosts:
            for number, job in enumerate(jobs, 1):
                _announce(job, f"job {number} of {len(jobs)}: " if len(jobs) > 1 else "", console)
                done = taken_over(job, folder) if len(jobs) > 1 else None
                if done is not None:
                    note = f"  done in {job.resume}: taken over"
                    console.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)
                    code = _exit_code(done, job)
                else:
                    done, code = await _run_job(job, hosts, folder, console, command.began if number == 1 else None)
                summaries.append(done)
                codes.append(code)
                paths = report.write(folder, summaries)
                if code == InterruptedRunError.exit_code:
                    break
                if code:
                    await hosts.release()  # they may be why
        if rest := jobs[len(summaries) :]:
            summaries += [_summary(job, [], folder) for job in rest]
            paths = report.write(folder, summaries)
    console.print(report.terminal_table(summaries))
    for path in paths:
        console.print(str(path), highlight=False, markup=False, soft_wrap=True)
    for line in _failures(summaries):  # the last thing that is read
        console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
    return next((code for code in codes if code), 0)


def _failures(summaries: Sequence[Summary]) -> Iterator[str]:
    """Why rounds failed, a line each."""
    rounds = [(done.name, round_) for done in summaries for round_ in done.results]
    for name, round_ in rounds:
        if round_.failure is not None:
            word = f"failed: {name}, round {round_.round}" if len(rounds) > 1 else "failed"
            yield round_.failure.after(word)


async def _run_job(
    job: JobConfig, hosts: Hosts, folder: Path, console: Console, began: float | None
) -> tuple[Summary, int]:
    """All rounds of a job, and its exit code.

    After a failed round the next one runs. After a round that could not start none does, because the reason is still
    there; nor after an interrupt.
    """
    results: list[Result] = []
    refused: FlagperfError | None = None
    try:
        job = await hosts.of(job)
        if job.cluster.scheduler:
            began = None  # the wait for nodes is no part of the round …
        for number in range(1, job.repeat + 1):
            if job.repeat > 1:
                console.print(f"round {number} of {job.repeat}", style="bold", highlight=False)
            if job.sized is not None:
                job, began = await with_found_size(job, folder, console), None  # … nor is the search
            results.append(await _run_round(job, number, folder, console, began if number == 1 else None))
            if results[-1].status == "interrupted":
                break
    except FlagperfError as error:
        refused = error
        results.append(_refused(job, len(results) + 1, folder, error))
    done = _summary(job, results, folder)
    return done, refused.exit_code if refused else _exit_code(done, job)


def _summary(job: JobConfig, results: list[Result], folder: Path) -> Summary:
    """Sum up a job and write that. Rounds that have no result were not started."""
    missing = range(len(results) + 1, job.repeat + 1)
    rest = [_without_outcome(job, number, folder, "not started") for number in missing]
    done = summary.summarize(job, [*results, *rest], folder / job.name)
    summary.write(done, folder / job.name)
    return done


async def _run_round(job: JobConfig, number: int, folder: Path, console: Console, began: float | None) -> Result:
    """Run a round and write its result.

    Raises:
        FlagperfError: it could not start.
    """
    resumed = with_checkpoints(job, number)
    with Progress(resumed, console, partial(objections, config=job.config)) as progress:
        on_hosts = f"{folder.name}-{token_hex(4)}"  # another run may have the same name
        outcome = await execute(resumed, make_plan(resumed, number, folder, on_hosts=on_hosts), folder, progress)
    if began is not None:
        outcome = _since_command(outcome, began)
    done = result.read_round(job, outcome, number, outcome.folder)
    result.write(done, outcome.folder)
    return done


def _since_command(outcome: Outcome, began: float) -> Outcome:
    """The outcome with the time from the command to the round added, as its phase `compose`."""
    seconds = outcome.started - began
    phases = {node: {"compose": seconds, **found} for node, found in outcome.phases.items()}
    return dataclasses.replace(outcome, phases=phases, started=began, seconds=outcome.seconds + seconds)


def _refused(job: JobConfig, number: int, folder: Path, error: FlagperfError) -> Result:
    """Say why a round could not start, and write its result."""
    log.error("%s, round %d: %s", job.name, number, error)
    Terminal(stderr=True).print(f"flagperf: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
    status = "interrupted" if isinstance(error, InterruptedRunError) else "failed"
    done = dataclasses.replace(_without_outcome(job, number, folder, status, refusal(error)), started=time.time())
    result.write(done, folder / job.name / f"round{number}")
    return done


def _without_outcome(job: JobConfig, number: int, folder: Path, status: str, failure: Failure | None = None) -> Result:
    """The result of a round that was not executed."""
    there = folder / job.name / f"round{number}"
    return result.result_of_logs(
        job.config, job.changes, number, there, status=status, failure=failure, sweep=job.sweep
    )


def _exit_code(done: Summary, job: JobConfig) -> int:
    if any(round_.status == "interrupted" for round_ in done.results):
        return InterruptedRunError.exit_code
    return result.exit_code([done], job.require_target)


def _announce(job: JobConfig, prefix: str, console: Console) -> None:
    """Say what runs, with the notes of composition."""
    console.print(f"{prefix}{job.name}", style="bold", highlight=False, markup=False)
    for note in job.notes:
        _note(console, note)


def _note(console: Console, text: str) -> None:
    log.info("%s", text)
    console.print(f"  {text}", style="dim", highlight=False, markup=False)
