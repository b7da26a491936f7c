"""`flagperf docs case|model|vendor`: a page as FlagPerf asks for it, at its place below a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.cli.verbs import usage
from flagperf.cli.words import need, runs_and_overrides
from flagperf.config.files.user_path import user_path
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError, nearest
from flagperf.partners.flagperf.pages.case import case_page
from flagperf.partners.flagperf.pages.chosen import chosen
from flagperf.partners.flagperf.pages.model import model_page
from flagperf.partners.flagperf.pages.render import write
from flagperf.partners.flagperf.pages.vendor import vendor_page
from flagperf.partners.flagperf.submission import MeasuredJob, belongs_to, jobs_in, unfit
from flagperf.plain import plain


@dataclass(frozen=True)
class Page:
    """A kind of page."""

    needs: tuple[str, ...]  # choices
    place: str  # in FlagPerf's folder training/
    is_about: Callable[[Mapping[str, Any]], object]  # jobs of which configurations are on it: those that agree in this
    make: Callable[[JobConfig, Sequence[MeasuredJob], Sequence[Path]], str]


PAGES = {
    "case": Page(("model", "vendor"), "{vendor}/{case}-{framework}/README.md", belongs_to, case_page),
    "model": Page(("model",), "benchmarks/{case}/README.md", lambda config: config["case"], model_page),
    "vendor": Page(("vendor",), "{vendor}/README.md", lambda config: config["vendor"]["name"], vendor_page),
}


def main(options: argparse.Namespace) -> int:
    """Print the path of the page; which jobs have no part in it goes to standard error."""
    kind, *arguments = options.arguments or [""]
    if kind not in PAGES:
        allowed = nearest(kind, PAGES)
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
    about = [measured for measured in jobs if page.is_about(measured.config) == page.is_about(job.config)]
    write(path, page.make(job, about, options.config_dir))
    print(path)
    for measured in jobs:
        if why := unfit(measured) if measured in about else "not of what this page is about":
            print(plain(f"left out: {measured.folder}: {why}"), file=sys.stderr)
    return 0
