"""flagperf docs: write FlagPerf's pages of a case, a model or a vendor, with measured results

usage: flagperf docs submission RUN… | case|model|vendor model=NAME vendor=NAME [runs=RUN…] into=FOLDER [OVERRIDES…]

words:
  submission   print the result table and README of a case from its results; refused where results are missing
  RUN…         folders of runs or of jobs, which together have the case at 1x1, 1x8 (to its end) and 2x8
  require_alignment=true
               with submission: refuse jobs that name no alignment (docs/numerics.md)
  case         the page of a case on a vendor's product: commands, and results at 1x1, 1x8 and 2x8
  model        the page of a model: description, data, frameworks, and the vendors with tunings of it
  vendor       the page of a vendor: products, images, monitors, environment, and the results of all cases
  runs=RUN…    folders of runs or of jobs, between commas or as further words
  into=FOLDER  the folder for the page, with the paths of FlagPerf's folder training/

options: --config-dir

examples:
  flagperf docs submission result/run20260101-120000
  flagperf docs submission result/one result/eight result/sixteen
  flagperf docs case model=bert vendor=nvidia hardware=A100 runs=result/a100 into=pages
  flagperf docs model model=bert into=pages
  flagperf docs vendor vendor=nvidia runs=result/a100,result/glm into=pages

exit codes: 0, 2
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from flagperf.cli.help import usage
from flagperf.cli.words import need, paths_and_options, runs_and_overrides
from flagperf.config.schema.values import JobConfig
from flagperf.contract.identity import Identity
from flagperf.errors import ConfigError, nearest
from flagperf.partners.flagperf.pages.case import case_page
from flagperf.partners.flagperf.pages.chosen import chosen
from flagperf.partners.flagperf.pages.model import model_page
from flagperf.partners.flagperf.pages.render import write
from flagperf.partners.flagperf.pages.vendor import vendor_page
from flagperf.partners.flagperf.readme import fragment
from flagperf.partners.flagperf.submission import MeasuredJob, check, jobs_in, submissions, unfit
from flagperf.plain import plain
from flagperf.run.command_file import key_of
from flagperf.user import user_path

SUBMISSION, ALIGNED = "submission", "require_alignment"


@dataclass(frozen=True)
class Page:
    """A kind of page."""

    needs: tuple[str, ...]  # required keys
    path: str  # in FlagPerf's folder training/
    job_key: Callable[[Identity], object]  # the jobs on the page have the same value of this key
    make: Callable[[JobConfig, Sequence[MeasuredJob], Sequence[Path]], str]


PAGES = {
    "case": Page(("model", "vendor"), "{vendor}/{case}-{framework}/README.md", attrgetter("of_submission"), case_page),
    "model": Page(("model",), "benchmarks/{case}/README.md", attrgetter("case"), model_page),
    "vendor": Page(("vendor",), "{vendor}/README.md", attrgetter("vendor"), vendor_page),
}


def main(parsed: argparse.Namespace) -> int:
    """Print a submission, or the path of a page. Jobs that are left out are listed on standard error."""
    kind, *arguments = parsed.arguments or [""]
    if kind == SUBMISSION:
        return _print_submission(arguments)
    if kind not in PAGES:
        allowed = nearest(kind, [SUBMISSION, *PAGES])
        raise ConfigError("docs needs a kind of page first", given=kind, allowed=allowed, advice=usage("docs"))
    page = PAGES[kind]
    runs, options, overrides = runs_and_overrides(arguments, ("into",))
    keys = {key_of(word) for word in overrides} | options.keys()
    need(f"docs {kind}", (*page.needs, "into"), keys)
    jobs = [measured for run in runs for measured in jobs_in(run)]
    words = [*overrides, *([] if "size" in keys else ["size=full"])]
    job = chosen(words, parsed.config_dir, any_product=kind == "vendor")
    names = {"case": job.case, "framework": job.framework.name, "vendor": job.vendor.name}
    path = user_path(options["into"]) / page.path.format(**names)
    selected = [measured for measured in jobs if page.job_key(measured.identity) == page.job_key(job.identity)]
    write(path, page.make(job, selected, parsed.config_dir))
    print(path)
    _say_what_is_left_out(
        (measured, unfit(measured) if measured in selected else "on another subject than this page")
        for measured in jobs
    )
    return 0


def _print_submission(arguments: Sequence[str]) -> int:
    """Print the Markdown of a submission. Refuses a submission with holes."""
    folders, options = paths_and_options("docs", arguments, (ALIGNED,))
    if not folders:
        raise ConfigError("docs submission takes folders of runs or jobs", advice=usage("docs"))
    jobs = [job for folder in folders for job in jobs_in(folder)]
    groups = submissions(jobs)
    check(groups, aligned=options.get(ALIGNED) == "true")
    print(plain("\n".join(fragment(group) for group in groups)), end="")
    _say_what_is_left_out((job, unfit(job)) for job in jobs)
    return 0


def _say_what_is_left_out(jobs: Iterable[tuple[MeasuredJob, str | None]]) -> None:
    for job, reason in jobs:
        if reason:
            print(plain(f"left out: {job.folder}: {reason}"), file=sys.stderr)
