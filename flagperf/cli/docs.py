"""flagperf docs: pages of a case, a model or a vendor as FlagPerf asks for them, with what was measured

usage: flagperf docs submission RUN… | case|model|vendor model=NAME vendor=NAME [runs=RUN…] into=FOLDER [OVERRIDES…]

words:
  submission   print the result table and README of a case, from measurement; refused where something is missing
  RUN…         folders of runs or of jobs, which together have the case at 1x1, 1x8 (to its end) and 2x8
  case         a case on a vendor's product: how to run it, results at 1x1, 1x8 and 2x8, or what is missing
  model        what the model is, its data, its frameworks, and which vendors' products have tunings of it
  vendor       products, images, monitors, environment, and the results of all cases
  runs=RUN…    folders of runs or of jobs, between commas or as further words
  into=FOLDER  where the page goes, at its place in FlagPerf's folder training/

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
from flagperf.config.files.user_path import user_path
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

SUBMISSION = "submission"


@dataclass(frozen=True)
class Page:
    """A kind of page."""

    needs: tuple[str, ...]  # choices
    place: str  # in FlagPerf's folder training/
    is_about: Callable[[Identity], object]  # what the jobs on the page agree in
    make: Callable[[JobConfig, Sequence[MeasuredJob], Sequence[Path]], str]


PAGES = {
    "case": Page(("model", "vendor"), "{vendor}/{case}-{framework}/README.md", attrgetter("of_submission"), case_page),
    "model": Page(("model",), "benchmarks/{case}/README.md", attrgetter("case"), model_page),
    "vendor": Page(("vendor",), "{vendor}/README.md", attrgetter("vendor"), vendor_page),
}


def main(options: argparse.Namespace) -> int:
    """Print a submission, or the path of a page; which jobs have no part in it goes to standard error."""
    kind, *arguments = options.arguments or [""]
    if kind == SUBMISSION:
        return _print_submission(arguments)
    if kind not in PAGES:
        allowed = nearest(kind, [SUBMISSION, *PAGES])
        raise ConfigError("docs takes first what the page is about", given=kind, allowed=allowed, advice=usage("docs"))
    page = PAGES[kind]
    runs, given, overrides = runs_and_overrides(arguments, ("into",))
    there = {word.partition("=")[0] for word in overrides} | given.keys()
    need(f"docs {kind}", (*page.needs, "into"), there)
    jobs = [measured for run in runs for measured in jobs_in(run)]
    words = [*overrides, *([] if "size" in there else ["size=full"])]
    job = chosen(words, options.config_dir, any_product=kind == "vendor")
    names = {"case": job.case, "framework": job.framework.name, "vendor": job.vendor.name}
    path = user_path(given["into"]) / page.place.format(**names)
    about = [measured for measured in jobs if page.is_about(measured.identity) == page.is_about(job.identity)]
    write(path, page.make(job, about, options.config_dir))
    print(path)
    _say_what_is_left_out(
        (measured, unfit(measured) if measured in about else "not of what this page is about") for measured in jobs
    )
    return 0


def _print_submission(arguments: Sequence[str]) -> int:
    """Print the Markdown of what the jobs measured. Refuses a submission with holes."""
    folders, _ = paths_and_options("docs", arguments, ())
    if not folders:
        raise ConfigError("docs submission takes folders of runs or jobs", advice=usage("docs"))
    jobs = [job for folder in folders for job in jobs_in(folder)]
    groups = submissions(jobs)
    check(groups)
    print(plain("\n".join(fragment(group) for group in groups)), end="")
    _say_what_is_left_out((job, unfit(job)) for job in jobs)
    return 0


def _say_what_is_left_out(jobs: Iterable[tuple[MeasuredJob, str | None]]) -> None:
    for job, why in jobs:
        if why:
            print(plain(f"left out: {job.folder}: {why}"), file=sys.stderr)
