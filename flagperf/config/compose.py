"""Overrides → JobConfig of each job of a command; `config/job.py` composes one."""

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
    """Compose all jobs of a command. One that is wrong refuses the whole command, before anything runs.

    Args:
        overrides: `key=value`, in Hydra's grammar.
        multirun: a comma list, choice(), range() or glob() makes one job per value. Of several scales those are left
            out, with a note, that the cluster or its nodes are too small for.
        config_dirs: the user's own configuration folders; the first has precedence.
    """
    folders = search_path(config_dirs)
    wanted = make_jobs(overrides, multirun, folders)
    jobs: list[JobConfig] = []
    left_out: list[str] = []
    load = Load(folders)
    for number, of_job in enumerate(wanted, start=1):
        try:
            job = compose_job(of_job, load, folders)
            if SCALE in of_job.swept:
                check_hosts(job)
            jobs.append(job)
        except ConfigError as error:
            if SCALE in of_job.swept and error.key in ("nnodes", "nproc"):
                left_out.append(f"scale {of_job.swept[SCALE]} is left out: {error.problem}; allowed: {error.allowed}")
                continue
            if len(wanted) == 1:
                raise
            swept = " ".join(f"{key}={shown(value, key)}" for key, value in of_job.swept.items())
            raise error.within(f"job {number} of {len(wanted)} ({swept})") from error
    return [replace(job, notes=(*left_out, *job.notes)) if job is jobs[0] else job for job in jobs]


def compose_each(commands: Iterable[Sequence[str]], config_dirs: Sequence[Path] = ()) -> list[JobConfig | ConfigError]:
    """Compose one job of each command. One that is wrong gives its error and does not stop the others."""
    folders = search_path(config_dirs)
    found: list[JobConfig | ConfigError] = []
    load = Load(folders)
    for overrides in commands:
        try:
            (of_job,) = make_jobs(overrides, False, folders)
            found.append(compose_job(of_job, load, folders))
        except ConfigError as error:
            found.append(error)
    return found
