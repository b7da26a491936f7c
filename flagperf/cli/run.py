"""`flagperf run`, the default: composes the jobs, then prints them (dry_run=true) or runs them."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flagperf.config.compose import compose_jobs
from flagperf.config.parts.resolve import check_hosts
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, NoValidCaseError, nearest

if TYPE_CHECKING:
    from flagperf.run.command_file import Command


def main(options: argparse.Namespace) -> int:
    """Compose, plan, execute, read, report."""
    jobs = compose_jobs(options.arguments, multirun=options.multirun, config_dirs=options.config_dir)
    if not jobs:
        raise NoValidCaseError("no case is left to run")
    jobs = _chosen(jobs)
    if jobs[0].resume is not None:
        from flagperf.run.resume import check_resumed

        check_resumed(jobs)
    if jobs[0].submit:
        from flagperf.cli.batch import submit

        return submit(jobs, _command(options))
    if jobs[0].cluster.kubernetes or jobs[0].render:
        from flagperf.cli.render import render

        return render(jobs, partial(_command, options))
    if jobs[0].dry_run:
        from flagperf.plan.dry_run import dry_run_text

        print("\n".join(dry_run_text(job) for job in jobs))
        return 0
    for job in jobs:
        check_hosts(job)
    import asyncio  # heavy, as what follows, and no part of a dry run or a refusal

    from flagperf.cli.jobs import run_jobs
    from flagperf.run.console import Terminal

    return asyncio.run(run_jobs(jobs, Terminal(), _command(options)))


def _command(options: argparse.Namespace) -> Command:
    """What was typed, where and when."""
    from flagperf.run.command_file import Command

    dirs = tuple(str(folder) for folder in options.config_dir)
    return Command(tuple(options.arguments), options.multirun, dirs, str(Path.cwd()), options.began)


def _chosen(jobs: list[JobConfig]) -> list[JobConfig]:
    """The one job that `only` names, else all."""
    only = jobs[0].only
    chosen = [job for job in jobs if only in (None, job.name)]
    if not chosen:
        known = [job.name for job in jobs]
        raise ConfigError("no such job", key="only", given=only, allowed=nearest(str(only), known))
    return chosen
