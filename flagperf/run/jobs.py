"""Runs all jobs of one `flagperf run`, each with its rounds, into one run folder: the only loop over jobs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex

from rich.console import Console

from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Outcome
from flagperf.contract.records import Result, Summary
from flagperf.docker.blocking import in_thread
from flagperf.errors import FlagperfError, InterruptedRunError
from flagperf.plan.plan import make_plan
from flagperf.predict.tracing import Stopper, stopper
from flagperf.results import batch_sizes, result, summary
from flagperf.results.closed import objections
from flagperf.run.auto_batch import with_found_size
from flagperf.run.command_file import Command
from flagperf.run.console import note
from flagperf.run.done_before import taken_over
from flagperf.run.execute import execute
from flagperf.run.fit import check_fit
from flagperf.run.interrupt import interruptible
from flagperf.run.on_hosts import Hosts
from flagperf.run.progress import Progress
from flagperf.run.restarts import Attempts
from flagperf.run.resume import with_checkpoints
from flagperf.run.rounds import Ended, folder_of_run, rounds


async def run_jobs(
    jobs: Sequence[JobConfig],
    console: Console,
    command: Command,
    report: Callable[[Path, Sequence[Summary]], object],
) -> tuple[list[Summary], int]:
    """Run all jobs, one after another. After a failed job the next one runs.

    Where several jobs resume a run, the jobs that this run has completed are taken over. The time of the first round
    begins with the command.

    Args:
        report: writes the report of the ended jobs into the run folder; called after each job.

    Returns:
        The summaries of all jobs, and the exit code of the first job that did not end well; 0: all ended well.

    Raises:
        ConfigError: the run folder cannot be made.
    """
    summaries: list[Summary] = []
    codes: list[int] = []
    with folder_of_run(jobs, command, console) as folder:
        async with Hosts(partial(note, console)) as hosts:
            for number, job in enumerate(jobs, 1):
                _announce(job, f"job {number} of {len(jobs)}: " if len(jobs) > 1 else "", console)
                done = taken_over(job, folder) if len(jobs) > 1 else None
                if done is not None:
                    note(console, f"done in {job.resume}: taken over")
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
                    await hosts.release()  # the hosts may have caused the failure
        if not_started := jobs[len(summaries) :]:
            summaries += [_summary(job, [], folder) for job in not_started]
            report(folder, summaries)
    return summaries, next((code for code in codes if code), 0)


class _JobRun:
    """All rounds of a job.

    Args:
        began: time of the command, for the first round; None: the time of the round begins with the round.
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
            await self._check_fit()
            self.job = await self.hosts.of(self.job)
        if self.job.repeat > 1:
            self.console.print(f"round {number} of {self.job.repeat}", style="bold", highlight=False)
        # The round includes neither the wait for nodes of a scheduler, nor the search for a batch size.
        waited = not self.job.cluster.is_listed or self.job.sized is not None
        if self.job.sized is not None:
            self.job = await with_found_size(self.job, self.folder, self.console)
        round_folder = self.folder / self.job.name / f"round{number}"
        attempts = Attempts(with_checkpoints(self.job, number), round_folder, partial(note, self.console))
        try:
            outcome = await attempts.run(partial(self._attempt, number))
        finally:  # the next round uses no host that this round has lost
            self.job = dataclasses.replace(self.job, cluster=attempts.job.cluster)
        return outcome if waited or number > 1 or self.began is None else _since_command(outcome, self.began)

    async def _attempt(self, number: int, job: JobConfig) -> Outcome:
        with Progress(job, self.console, partial(objections, config=job.config)) as progress:
            on_hosts = f"{self.folder.name}-{token_hex(4)}"  # another run, or attempt, may have the same name
            plan = make_plan(job, number, self.folder, on_hosts=on_hosts)
            return await execute(job, plan, self.folder, progress)

    async def _check_fit(self) -> None:
        """Refuse a step that does not fit. The time of the round leaves out the time of this prediction."""
        start = time.time()
        tracing = Stopper()

        def check() -> None:
            stopper.set(tracing)
            check_fit(self.job, self.folder, partial(note, self.console))

        await interruptible(in_thread(check), tracing.stop)
        if self.began is not None:
            self.began += time.time() - start

    def _result(self, ended: Ended) -> Result:
        outcome = ended.outcome
        if not ended.error:
            return result.read_round(outcome, ended.round, self.job.config, self.job.changes, self.job.sweep)
        ending = result.Ending(outcome.status, outcome.failure, started=outcome.started)
        return _without_outcome(self.job, ended.round, self.folder, ending)


def _summary(job: JobConfig, results: list[Result], folder: Path) -> Summary:
    """Write the summary of a job. Rounds without a result were not started."""
    numbers = range(len(results) + 1, job.repeat + 1)
    not_started = [_without_outcome(job, number, folder, result.Ending("not started")) for number in numbers]
    batch = batch_sizes.read(folder / job.name)
    done = summary.summary_of(job.name, [*results, *not_started], job.config, job.changes, batch)
    summary.write(done, folder / job.name)
    return done


def _since_command(outcome: Outcome, began: float) -> Outcome:
    """The outcome with the time from the command to the round added, as its phase `compose`."""
    seconds = outcome.started - began
    phases = {node: {"compose": seconds, **node_phases} for node, node_phases in outcome.phases.items()}
    return dataclasses.replace(outcome, phases=phases, started=began, seconds=outcome.seconds + seconds)


def _without_outcome(job: JobConfig, number: int, folder: Path, ending: result.Ending) -> Result:
    """The result of a round that was not executed."""
    round_folder = folder / job.name / f"round{number}"
    return result.result_of_logs(job.config, job.changes, number, round_folder, ending, job.sweep)


def _exit_code(done: Summary, job: JobConfig) -> int:
    if any(round_.status == "interrupted" for round_ in done.results):
        return InterruptedRunError.exit_code
    return result.exit_code([done], job.require_target)


def _announce(job: JobConfig, prefix: str, console: Console) -> None:
    """Print the name of the job, with the notes of composition."""
    console.print(f"{prefix}{job.name}", style="bold", highlight=False, markup=False)
    for text in job.notes:
        note(console, text)
