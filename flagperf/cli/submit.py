"""`flagperf submit RUN…`: FlagPerf's result table and README of a case, from measurement."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from flagperf.cli.verbs import usage
from flagperf.cli.words import paths_and_options
from flagperf.errors import ConfigError
from flagperf.partners.flagperf import readme as flagperf_readme
from flagperf.partners.flagperf import submission
from flagperf.partners.flagperf.submission import MeasuredJob
from flagperf.plain import plain


def main(options: argparse.Namespace) -> int:
    """Print the Markdown; what was left out goes to standard error. Refuses submissions with holes."""
    folders, _ = paths_and_options("submit", options.arguments, ())
    if not folders:
        raise ConfigError("submit takes folders of runs or jobs", advice=usage("submit"))
    jobs = [job for folder in folders for job in submission.jobs_in(folder)]
    groups = submission.submissions(jobs)
    submission.check(groups)
    print(plain("\n".join(flagperf_readme.fragment(group) for group in groups)), end="")
    _say_what_is_left_out(jobs)
    return 0


def _say_what_is_left_out(jobs: Sequence[MeasuredJob]) -> None:
    for job in jobs:
        if why := submission.unfit(job):
            print(plain(f"left out: {job.folder}: {why}"), file=sys.stderr)
