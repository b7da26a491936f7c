"""`flagperf list runs`: the jobs of the runs in a folder, filtered and sorted, as text and as a page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from rich.text import Text

from flagperf.cli.help import usage
from flagperf.cli.words import paths_and_options
from flagperf.errors import ConfigError
from flagperf.report.run_list import page
from flagperf.report.runs import OF_IDENTITY, Listed, listed
from flagperf.report.terminal import styled
from flagperf.run.console import Terminal
from flagperf.run.folder import RESULTS
from flagperf.user import user_path

HEADS = ("date", "run", "job", "verdict", "p_train")
FILTERS = (*OF_IDENTITY, "verdict")
ORDERS: Mapping[str, Callable[[Listed], tuple[object, ...]]] = {
    "date": lambda job: (-job.began,),
    "run": lambda job: (job.run, job.job),
    "job": lambda job: (job.job, -job.began),
    "verdict": lambda job: (job.verdict, -job.began),
    "p_train": lambda job: (job.rate is None, -(job.rate or 0.0)),
}


def list_runs(arguments: Sequence[str]) -> int:
    """Print the jobs of all runs in a result folder, newest run first, or in another order; write html=FILE."""
    folders, options = paths_and_options("list", arguments, (*FILTERS, "sort", "html"))
    if len(folders) > 1:
        given = " ".join(map(str, folders))
        raise ConfigError("list runs takes one result folder", given=given, advice=usage("list"))
    folder = folders[0] if folders else user_path(RESULTS)
    jobs = listed(folder)
    if not jobs:
        advice = "give the result_dir of your runs: flagperf list runs RESULT_DIR"
        raise ConfigError("no run in this folder", given=folder.absolute(), advice=advice)
    chosen = selected(jobs, options)
    terminal = Terminal(file=sys.stdout)  # a full disk is an error
    for line in _lines(chosen):
        terminal.print(line, soft_wrap=True)  # lines are not broken in a file or a pipe
    if "html" in options:
        _write(options["html"], page(folder, chosen, user_path(options["html"]).absolute().parent))
    return 0


def selected(jobs: Sequence[Listed], options: Mapping[str, str]) -> list[Listed]:
    """The jobs that have one of the given values of each key, in the given order.

    Raises:
        ConfigError: no job has such a value, or the order is unknown.
    """
    chosen = list(jobs)
    for key in FILTERS:
        if key in options:
            values = {value.lower() for value in options[key].split(",")}
            known = sorted({str(getattr(job, key)) for job in chosen} - {""})
            chosen = [job for job in chosen if str(getattr(job, key)).lower() in values]
            if not chosen:
                raise ConfigError("no run has this value", key=key, given=options[key], allowed=", ".join(known))
    order = options.get("sort", "date")
    if order not in ORDERS:
        raise ConfigError("unknown order", key="sort", given=order, allowed=", ".join(ORDERS))
    return sorted(chosen, key=ORDERS[order])


def _lines(jobs: Sequence[Listed]) -> Iterator[Text]:
    """A line for each job, and a further line for its note."""
    dates = (f"{datetime.fromtimestamp(job.began):%Y-%m-%d %H:%M}" for job in jobs)
    rows = [(date, job.run, job.job, job.verdict, job.p_train) for date, job in zip(dates, jobs, strict=True)]
    widths = [max(map(len, column)) for column in zip(HEADS, *rows, strict=True)]
    yield Text("  ".join(map(str.ljust, HEADS, widths)).rstrip(), style="bold")
    for job, row in zip(jobs, rows, strict=True):
        line = Text("  ").join(styled(text.ljust(width)) for text, width in zip(row, widths, strict=True))
        line.rstrip()
        yield line
        if job.note:
            yield Text(f"    {job.note}", style="dim")


def _write(file: str, text: str) -> None:
    try:
        user_path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the file cannot be written: {error.strerror}", key="html", given=file) from None
