"""Starts the ranks of a job for one question in place of a training, with the checks of a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from flagperf.config.parts.platform import check_hosts
from flagperf.config.schema.values import JobConfig
from flagperf.errors import InterruptedRunError, TrainingError
from flagperf.plan.plan import make_plan
from flagperf.results.rank_log import RankLog, read_rank_logs
from flagperf.run import folder as run_folder
from flagperf.run.console import Terminal
from flagperf.run.execute import execute
from flagperf.run.on_hosts import Hosts
from flagperf.run.progress import Progress


def ask_ranks(job: JobConfig, name: str) -> tuple[Path, tuple[RankLog, ...]]:
    """Start the ranks of a job once, and wait for their end.

    Args:
        name: begin of the run folder's name, where the job has no run_name.

    Returns:
        The run folder, and the log of each rank, by rank.

    Raises:
        FlagperfError: a host cannot be used, a rank failed, or the user interrupted the run.
    """
    check_hosts(job)
    folder = run_folder.create(replace(job, run_name=job.run_name or f"{name}{datetime.now():%Y%m%d-%H%M%S}"))
    return folder, asyncio.run(_logs(job, folder))


async def _logs(job: JobConfig, folder: Path) -> tuple[RankLog, ...]:
    terminal = Terminal(stderr=True)
    async with Hosts(partial(terminal.print, highlight=False, markup=False)) as hosts:
        job = await hosts.of(job)
        with Progress(job, terminal) as progress:
            outcome = await execute(job, make_plan(job, 1, folder), folder, progress)
    if outcome.status == "interrupted":
        raise InterruptedRunError
    if outcome.failure is not None:
        raise TrainingError(outcome.failure.line)  # the progress has shown the whole failure
    return read_rank_logs(outcome.folder)
