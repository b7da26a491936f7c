"""Overrides → the JobConfig of each job of a command. `config/job.py` composes one job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from flagperf.config.files.layers import Load
from flagperf.config.files.search_path import search_path
from flagperf.config.files.sweep import make_jobs
from flagperf.config.job import compose_job
from flagperf.config.parts.platform import check_hosts
from flagperf.config.schema.keys import SCALE
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError
from flagperf.secret import shown


def compose(overrides: Sequence[str], config_dirs: Sequence[Path] = ()) -> JobConfig:
    """Compose one job. Raises ConfigError."""
    return compose_jobs(overrides, config_dirs=config_dirs)[0]


def compose_jobs(
    overrides: Sequence[str], *, multirun: bool = False, config_dirs: Sequence[Path] = ()
) -> list[JobConfig]:
    """Compose all jobs of a command. An error of one job refuses the whole command.

    Args:
        overrides: `key=value`, in Hydra's grammar.
        multirun: a comma list, choice(), range() or glob() makes one job for each value. Of several scales, those that
            are too large for the cluster are left out, with a note.
        config_dirs: the user's configuration folders; the first has precedence.
    """
    folders = search_path(config_dirs)
    commands = make_jobs(overrides, multirun, folders)
    jobs: list[JobConfig] = []
    left_out: list[str] = []
    load = Load(folders)
    for number, job_overrides in enumerate(commands, start=1):
        try:
            job = compose_job(job_overrides, load, folders)
            if SCALE in job_overrides.swept:
                check_hosts(job)
            jobs.append(job)
        except ConfigError as error:
            if SCALE in job_overrides.swept and error.key in ("nnodes", "nproc"):
                left_out.append(
                    f"scale {job_overrides.swept[SCALE]} is left out: {error.problem}; allowed: {error.allowed}"
                )
                continue
            if len(commands) == 1:
                raise
            swept = " ".join(f"{key}={shown(value, key)}" for key, value in job_overrides.swept.items())
            raise error.within(f"job {number} of {len(commands)} ({swept})") from error
    return [replace(job, notes=(*left_out, *job.notes)) if job is jobs[0] else job for job in jobs]


def compose_each(commands: Iterable[Sequence[str]], config_dirs: Sequence[Path] = ()) -> list[JobConfig | ConfigError]:
    """Compose one job of each command. An error takes the place of its job, and does not stop the others."""
    folders = search_path(config_dirs)
    jobs: list[JobConfig | ConfigError] = []
    load = Load(folders)
    for overrides in commands:
        try:
            (job_overrides,) = make_jobs(overrides, False, folders)
            jobs.append(compose_job(job_overrides, load, folders))
        except ConfigError as error:
            jobs.append(error)
    return jobs
