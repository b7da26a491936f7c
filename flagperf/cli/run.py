"""`flagperf run`, the default: composes the jobs, then prints them (dry_run=true) or runs them."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from flagperf.config.compose import compose_jobs
from flagperf.config.resolve import check_hosts
from flagperf.errors import NoValidCaseError


def main(options: argparse.Namespace) -> int:
    """Compose, plan, execute, read, report."""
    jobs = compose_jobs(options.arguments, multirun=options.multirun, config_dirs=options.config_dir)
    if not jobs:
        raise NoValidCaseError("no case is left to run")
    if jobs[0].dry_run:
        from flagperf.plan.dry_run import dry_run_text

        print("\n".join(dry_run_text(job) for job in jobs))
        return 0
    for job in jobs:
        check_hosts(job)
    from flagperf.cli.jobs import run_jobs  # heavy, and no part of a dry run or a refusal
    from flagperf.run.command_file import Command
    from flagperf.run.console import Terminal

    dirs = tuple(str(folder) for folder in options.config_dir)
    command = Command(tuple(options.arguments), options.multirun, dirs, str(Path.cwd()), options.began)
    return asyncio.run(run_jobs(jobs, Terminal(), command))
