"""flagperf list: show the choices of a kind, the settings of a case, or the runs of a folder

usage: flagperf list [KIND… | CASE [framework=NAME] [size=tiny] | runs [RESULT_DIR]]

words:
  KIND                          a word of the next line; without a word, all kinds
  cases|frameworks|vendors|hardware|clusters|experiments
                                names and titles
  CASE                          target, data, tunings, and settings: default, unit, range, and whether a closed run may
                                change it
  runs [RESULT_DIR]             the runs of a result folder (result), newest first

options: --config-dir

examples:
  flagperf list hardware
  flagperf list bert framework=paddle
  flagperf list runs

exit codes: 0, 2
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flagperf.cli.help import usage
from flagperf.cli.list_case import case_table
from flagperf.config.about_case import about_case, frameworks
from flagperf.config.files import search_path
from flagperf.config.files.user_path import user_path
from flagperf.errors import ConfigError, nearest
from flagperf.report.runs import Listed, listed
from flagperf.report.terminal import styled
from flagperf.run.console import Terminal, print_unfolded
from flagperf.run.folder import RESULTS

KINDS = {
    "cases": "model",
    "frameworks": "framework",
    "vendors": "vendor",
    "hardware": "hardware",
    "clusters": "cluster",
    "experiments": "experiment",
}  # word of the command line → configuration group
RUNS = "runs"
HEADS = ("date", "run", "job", "verdict", "p_train")


def main(options: argparse.Namespace) -> int:
    """Print the choices of the given kinds, or of all kinds; or the runs of a folder; or the settings of a case."""
    first, folders = next(iter(options.arguments), None), search_path.search_path(options.config_dir)
    if first == RUNS:
        return _list_runs(options.arguments[1:])
    if first in (cases := search_path.cases(folders)):
        print_unfolded(case_table(about_case(first, options.arguments[1:], options.config_dir)))
        return 0
    for kind in options.arguments or KINDS:
        if kind not in KINDS:
            allowed = nearest(kind, [*KINDS, RUNS, *cases])
            raise ConfigError("there is no such list, and no such case", given=kind, allowed=allowed)
        table = Table(title=kind, title_justify="left", box=None, show_header=False)
        for name, title in rows(kind, options.config_dir):
            further = [", ".join(FURTHER[kind](name, folders))] if kind in FURTHER else []
            table.add_row(*map(escape, (name, title, *further)))
        print_unfolded(table)
    return 0


def _list_runs(arguments: Sequence[str]) -> int:
    """Print the jobs of all runs in a result folder, newest run first."""
    if len(arguments) > 1:
        given = " ".join(arguments)
        raise ConfigError("list runs takes one result folder", given=given, advice=usage("list"))
    folder = user_path(arguments[0] if arguments else RESULTS)
    jobs = listed(folder)
    if not jobs:
        advice = "give the result_dir of your runs: flagperf list runs RESULT_DIR"
        raise ConfigError("no run in this folder", given=folder.absolute(), advice=advice)
    terminal = Terminal()
    for line in _lines(jobs):
        terminal.print(line, soft_wrap=True)  # lines are not broken in a file or a pipe
    return 0


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


def rows(kind: str, config_dirs: Sequence[Path] = ()) -> list[tuple[str, str]]:
    """Name and title of each choice of a kind, sorted by name, also from the user's own folders.

    Files are not parsed, so that an error in a file does not hide the other files.
    """
    folders = search_path.search_path(config_dirs)
    group = KINDS[kind]
    paths = ((name, search_path.find(f"{group}/{name}", folders)) for name in search_path.options(group, folders))
    return [(name, _title(path.read_text(encoding="utf-8"))) for name, path in paths if path]


def install(framework: str, folders: Sequence[Path]) -> list[str]:
    """The advice of a framework's file on how to install the framework; empty where the file has none."""
    file = search_path.find(f"framework/{framework}", folders)
    text = _value("install", file.read_text(encoding="utf-8")) if file else None
    return [text] if text else []


# kind → further texts of a choice, beside its title
FURTHER: Mapping[str, Callable[[str, Sequence[Path]], Sequence[str]]] = {"cases": frameworks, "frameworks": install}


def _value(key: str, text: str) -> str | None:
    """The value of a key, where the value is a text in the line of the key."""
    match = re.search(rf"^\s*{key}:\s*(.+?)\s*$", text, re.MULTILINE)
    return match[1].split("  #")[0].strip().strip("\"'") if match else None


def _title(text: str) -> str:
    """The value of `title:`, else the first comment that is not a command."""
    if title := _value("title", text):
        return title
    comments = re.findall(r"^# (?!@package|flagperf)(.+)$", text, re.MULTILINE)
    return comments[0] if comments else ""
