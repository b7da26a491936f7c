"""`flagperf submit RUN…`: FlagPerf's result table and README of a case, from measurement."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from flagperf import report
from flagperf.cli.verbs import usage
from flagperf.errors import ConfigError
from flagperf.plain import plain
from flagperf.report import flagperf_readme, submission
from flagperf.report.submission import Job


def main(options: argparse.Namespace) -> int:
    """Print the Markdown; what was left out goes to standard error. Refuses submissions with holes."""
    if not options.arguments or any("=" in word and not Path(word).exists() for word in options.arguments):
        given = " ".join(options.arguments) or None
        raise ConfigError("submit takes folders of runs or jobs", given=given, advice=usage("submit"))
    jobs = [job for word in options.arguments for job in _jobs(Path(word).expanduser())]
    groups = submission.submissions(jobs)
    submission.check(groups)
    print(plain("\n".join(flagperf_readme.fragment(group) for group in groups)), end="")
    _say_what_is_left_out(jobs)
    return 0


def _jobs(folder: Path) -> list[Job]:
    run = folder.resolve().parent if report.is_job(folder) else folder
    return [Job(run / summary.name, summary) for summary in report.read_jobs(folder)]


def _say_what_is_left_out(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if why := submission.unfit(job):
            print(plain(f"left out: {job.folder}: {why}"), file=sys.stderr)
