"""Executes the rounds of a job one after another, in the folder of a run."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console

from flagperf.config.schema.values import JobConfig
from flagperf.contract.outcome import Outcome, refusal
from flagperf.errors import FlagperfError, InterruptedRunError
from flagperf.run import command_file
from flagperf.run import folder as run_folder
from flagperf.run.command_file import Command
from flagperf.run.console import Terminal
from flagperf.run.run_log import run_log

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ended:
    """The end of a round."""

    round: int
    outcome: Outcome
    error: FlagperfError | None = None  # why the round could not start


@contextmanager
def folder_of_run(jobs: Sequence[JobConfig], command: Command, console: Console) -> Iterator[Path]:
    """Make and lock the folder of a run, with its log, its command and the configurations of all jobs.

    Raises:
        ConfigError: the folder cannot be made.
    """
    folder = run_folder.create(jobs[0])
    with run_log(folder, jobs[0].log_level, console), run_folder.held(folder):
        command_file.keep(command, folder, [job.mask for job in jobs])
        for job in jobs:  # before the first job: readers of the folder see all jobs
            run_folder.write_configuration(job, folder / job.name)
        yield folder


async def rounds(
    job: JobConfig, folder: Path, execute: Callable[[int], Awaitable[Outcome]], *, after_refusal: bool = False
) -> AsyncIterator[Ended]:
    """Execute the rounds of a job until an interrupt. After a failed round the next one is executed.

    Args:
        folder: of the run.
        execute: executes the round with a number, from 1.
        after_refusal: execute the next round also after a round that could not start.
    """
    for number in range(1, job.repeat + 1):
        began = time.time()
        try:
            ended = Ended(number, await execute(number))
        except FlagperfError as error:
            ended = Ended(number, _refused(job, number, folder, error, began), error)
        yield ended
        if ended.outcome.status == "interrupted" or (ended.error and not after_refusal):
            return


def _refused(job: JobConfig, number: int, folder: Path, error: FlagperfError, began: float) -> Outcome:
    """Print and log why a round could not start. Returns its outcome."""
    log.error("%s, round %d: %s", job.name, number, error)
    Terminal(stderr=True).print(f"flagperf: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
    is_interrupt = isinstance(error, InterruptedRunError)
    round_folder = folder / job.name / f"round{number}"
    status: Literal["interrupted", "failed"] = "interrupted" if is_interrupt else "failed"
    return Outcome(status, round_folder, refusal(error), (), {}, began, time.time() - began)
