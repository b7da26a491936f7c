"""`flagperf docs case|model|vendor`: a page as FlagPerf asks for it, at its place below a folder."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flagperf.cli.verbs import usage
from flagperf.cli.words import need, path_of, runs_and_overrides
from flagperf.config.values import RunConfig
from flagperf.errors import ConfigError, nearest
from flagperf.pages.case import case_page
from flagperf.pages.chosen import chosen
from flagperf.pages.model import model_page
from flagperf.pages.render import write
from flagperf.pages.vendor import vendor_page
from flagperf.report.submission import Job, jobs_in

Page = Callable[[RunConfig, Sequence[Job], Sequence[Path]], str]
# kind → the choice that it needs, its place in FlagPerf's folder training/, and what makes it
PAGES: Mapping[str, tuple[tuple[str, ...], str, Page]] = {
    "case": (("model", "vendor"), "{vendor}/{case}-{framework}/README.md", case_page),
    "model": (("model",), "benchmarks/{case}/README.md", model_page),
    "vendor": (("vendor",), "{vendor}/README.md", vendor_page),
}


def main(options: argparse.Namespace) -> int:
    """Print the path of the page."""
    kind, *arguments = options.arguments or [""]
    if kind not in PAGES:
        allowed = nearest(kind, PAGES)
        raise ConfigError("docs takes first what the page is about", given=kind, allowed=allowed, advice=usage("docs"))
    needed, place, page = PAGES[kind]
    runs, given, overrides = runs_and_overrides(arguments, ("into",))
    there = {word.partition("=")[0] for word in overrides} | given.keys()
    need(f"docs {kind}", (*needed, "into"), there)
    jobs = [job for run in runs for job in jobs_in(run)]
    words = [*overrides, *([] if "size" in there else ["size=full"])]
    run = chosen(words, options.config_dir, any_product=kind == "vendor")
    names = {"case": run.case, "framework": run.framework.name, "vendor": run.vendor.name}
    path = path_of(given["into"]) / place.format(**names)
    write(path, page(run, jobs, options.config_dir))
    print(path)
    return 0
