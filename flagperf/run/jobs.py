"""All jobs of one `flagperf run`, each with its rounds, into one run folder: the one loop over jobs."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex

from rich.console import Console

from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Failure, Outcome
from flagperf.contract.records import Result, Summary
from flagperf.errors import FlagperfError, InterruptedRunError
from flagperf.plan.plan import make_plan
from flagperf.results import result, summary
from flagperf.results.closed import objections
from flagperf.run.auto_batch import with_found_size
from flagperf.run.command_file import Command
from flagperf.run.done_before import taken_over
from flagperf.run.execute import execute
from flagperf.run.on_hosts import Hosts
from flagperf.run.progress import Progress
from flagperf.run.resume import with_checkpoints
from flagperf.run.rounds import Ended, folder_of_run, rounds

log = logging.getLogger(__name__)


async def run_jobs(
    jobs: Sequence[JobConfig],
    console: Console,
    command: Command,
    report: Callable[[Path, Sequence[Summary]], object],
) -> tuple[list[Summary], int]:
    """Run all jobs, one after another. After a failed job the next one runs.

    Of several jobs those are taken over that the run has done which they resume.

    The first round counts from when the command was given.

    Args:
        report: writes the report of the jobs that have ended into the run folder; called after each job.

    Returns:
        All jobs, and the exit code of the first that did not end well, 0 when all did.

    Raises:
        ConfigError: the run folder cannot be made.
    """
    summaries: list[Summary] = []
    codes: list[int] = []
    with folder_of_run(jobs, command, console) as folder:
        async with Hosts(partial(_note, console)) as hosts:
            for number, job in enumerate(jobs, 1):
                _announce(job, f"job {number} of {len(jobs)}: " if len(jobs) > 1 else "", console)
                done = taken_over(job, folder) if len(jobs) > 1 else None
                if done is not None:
                    note = f"  done in {job.resume}: taken over"
                    console.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)
                    code = _exit_code(done, job)
                else:
                    began = command.began if number == 1 else None
                    done, code = await _JobRun(job, hosts, folder, console, began).run()
                summaries.append(done)
                codes.append(code)
                report(folder, summaries)
                if code == InterruptedRunError.exit_code:
                    break
                if code:
                    await hosts.release()  # they may be why
        if rest := jobs[len(summaries) :]:
            summaries += [_summary(job, [], folder) for job in rest]
            report(folder, summaries)
    return summaries, next((code for code in codes if code), 0)


class _JobRun:
    """All rounds of a job.

    Args:
        began: when the command was given, for the first round; None: the round counts from its own start.
    """

    def __init__(self, job: JobConfig, hosts: Hosts, folder: Path, console: Console, began: float | None) -> None:
        self.job, self.hosts, self.folder, self.console, self.began = job, hosts, folder, console, began

    async def run(self) -> tuple[Summary, int]:
        """The job's summary and exit code."""
        results: list[Result] = []
        refused: FlagperfError | None = None
        async for ended in rounds(self.job, self.folder, self._execute):
            results.append(self._result(ended))
            result.write(results[-1], ended.outcome.folder)
            refused = ended.error
        done = _summary(self.job, results, self.folder)
        return done, refused.exit_code if refused else _exit_code(done, self.job)

    async def _execute(self, number: int) -> Outcome:
        """Execute a round on the job's hosts, with the batch size that fits."""
        if number == 1:
            self.job = await self.hosts.of(self.job)
        if self.job.repeat > 1:
            self.console.print(f"round {number} of {self.job.repeat}", style="bold", highlight=False)
        # The wait for nodes of a scheduler, and the search for a size, are no part of the round.
        waited = not self.job.cluster.is_listed or self.job.sized is not None
        if self.job.sized is not None:
            self.job = await with_found_size(self.job, self.folder, self.console)
        job = with_checkpoints(self.job, number)
        with Progress(job, self.console, partial(objections, config=self.job.config)) as progress:
            on_hosts = f"{self.folder.name}-{token_hex(4)}"  # another run may have the same name
            plan = make_plan(job, number, self.folder, on_hosts=on_hosts)
            outcome = await execute(job, plan, self.folder, progress)
        return outcome if waited or number > 1 or self.began is None else _since_command(outcome, self.began)

    def _result(self, ended: Ended) -> Result:
        outcome = ended.outcome
        if not ended.error:
            return result.read_round(self.job, outcome, ended.round, outcome.folder)
        refused = _without_outcome(self.job, ended.round, self.folder, outcome.status, outcome.failure)
        return dataclasses.replace(refused, started=outcome.started)


def _summary(job: JobConfig, results: list[Result], folder: Path) -> Summary:
    """Sum up a job and write that. Rounds that have no result were not started."""
    missing = range(len(results) + 1, job.repeat + 1)
    rest = [_without_outcome(job, number, folder, "not started") for number in missing]
    done = summary.summarize(job, [*results, *rest], folder / job.name)
    summary.write(done, folder / job.name)
    return done


def _since_command(outcome: Outcome, began: float) -> Outcome:
    """The outcome with the time from the command to the round added, as its phase `compose`."""
    seconds = outcome.started - began
    phases = {node: {"compose": seconds, **found} for node, found in outcome.phases.items()}
    return dataclasses.replace(outcome, phases=phases, started=began, seconds=outcome.seconds + seconds)


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
