"""What each verb of the command line does. Each takes the parsed options, prints, and returns the exit code."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flagperf.errors import ConfigError, HostError, NoValidCaseError, nearest

if TYPE_CHECKING:
    from flagperf.cli.doctor.findings import Row
    from flagperf.config.values import RunConfig

UNFOLDED = 100_000  # characters of a line where nothing needs to fit a screen


def run(options: argparse.Namespace) -> int:
    """Compose, plan, execute, read, report."""
    from flagperf.config.compose import compose_jobs
    from flagperf.plan.dry_run import dry_run_text

    jobs = compose_jobs(options.words, multirun=options.multirun, config_dirs=options.config_dir)
    if not jobs:
        raise NoValidCaseError("no case is left to run")
    if jobs[0].dry_run:
        print("\n".join(dry_run_text(job) for job in jobs))
        return 0
    from rich.console import Console

    from flagperf.cli.session import run_jobs

    return asyncio.run(run_jobs(jobs, Console(), options.began))


def list_choices(options: argparse.Namespace) -> int:
    """Print what can be chosen, one line each."""
    from rich.console import Console
    from rich.table import Table

    from flagperf.cli import list as listing

    kinds = options.words or list(listing.KINDS)
    for kind in kinds:
        if kind not in listing.KINDS:
            raise ConfigError("unknown kind of list", given=kind, allowed=nearest(kind, listing.KINDS))
        table = Table(title=kind, title_justify="left", box=None, show_header=False)
        for name, title in listing.rows(kind, options.config_dir):
            table.add_row(name, title)
        Console().print(table)
    return 0


def report_again(options: argparse.Namespace) -> int:
    """Write the report of a finished run again."""
    from rich.console import Console

    from flagperf import report

    if len(options.words) != 1:
        raise ConfigError(
            "report takes one run folder", given=" ".join(options.words), advice="flagperf report RUN_DIR"
        )
    folder = Path(options.words[0])
    summaries = report.read_run(folder)
    Console().print(report.terminal_table(summaries))
    for path in report.write(folder, summaries):
        print(path)
    return 0


def check(options: argparse.Namespace) -> int:
    """Print what a vendor's files lack; exit code 2 where something is lacking that a run needs."""
    from flagperf.cli.check_vendor import check_vendor

    key, _, name = options.words[0].partition("=") if len(options.words) == 1 else ("", "", "")
    if key != "vendor" or not name:
        advice = "flagperf check vendor=NAME, which looks at all its hardware"
        raise ConfigError("check takes one vendor", given=" ".join(options.words) or None, advice=advice)
    lacks = check_vendor(name, options.config_dir)
    for file, of_file in itertools.groupby(lacks, key=lambda lack: lack.file):
        print(file)
        for lack in of_file:
            needed = "" if lack.needed else "    (runs without)"
            print("  " + (f"{lack.key + ':':12} " if lack.key else "") + lack.what + needed)
    if not lacks:
        print(f"vendor {name}: nothing is missing")
    return ConfigError.exit_code if any(lack.needed for lack in lacks) else 0


def data(options: argparse.Namespace) -> int:
    """Look at a case's data, write its sample data or convert its original data; then print what is there."""
    from flagperf.cli import data as case_data
    from flagperf.config.data_layout import check_layout, count_entries

    action, *words = options.words or [""]
    if action not in case_data.SIZES:
        allowed = nearest(action, case_data.SIZES)
        advice = "flagperf data check model=NAME data_dir=PATH"
        raise ConfigError("data takes first what to do", given=action, allowed=allowed, advice=advice)
    source = next((word.removeprefix("source=") for word in words if word.startswith("source=")), None)
    job = case_data.compose_case(action, [word for word in words if not word.startswith("source=")], options.config_dir)
    if action == "sample":
        case_data.write_sample(job)
    elif action == "prepare":
        case_data.prepare(job, source)
    folder, layout = Path(job.data_dir), job.data
    print(f"in {folder}:", flush=True)
    for pattern, least, found in count_entries(layout, folder):
        print(f"{found:>12,}  {pattern}" + (f"    MISSING: at least {least:,}" if found < least else ""), flush=True)
    if action == "check":
        check_layout(layout, folder)
        if not case_data.read(job):
            print("not opened: no PyTorch here; runtime.python=PATH names a Python that has it")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Print what may keep the words from running on the cluster; exit code 3 when something will."""
    from flagperf.cli.doctor.hosts import examine

    return print_rows(asyncio.run(examine(_only_job(options))))


def clean(options: argparse.Namespace) -> int:
    """Remove what dead runs left on the cluster, and print it."""
    from flagperf.cli.clean import clean as clean_hosts

    return print_rows(asyncio.run(clean_hosts(_only_job(options))))


def _only_job(options: argparse.Namespace) -> RunConfig:
    """The job of a verb that looks at a cluster; unlike a run it does not need a data_dir."""
    from flagperf.config.compose import compose

    return compose([*options.words, "dry_run=true"], options.config_dir)


def print_rows(rows: Sequence[Row]) -> int:
    """A table in which what to do stands below what was found; folded where a terminal is narrow, never in a file."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else UNFOLDED)
    table = Table("host", "check", "state", box=None, pad_edge=False)
    table.add_column("found", overflow="fold")  # a long path is shown whole
    for row in rows:
        colour = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}[row.state]
        told = f"{row.found}\ndo: {row.advice}" if row.advice else row.found
        table.add_row(row.host, row.check, f"[{colour}]{row.state}[/]", escape(told))
    with console.capture() as shown:
        console.print(table)
    print("\n".join(line.rstrip() for line in shown.get().splitlines()))
    return HostError.exit_code if any(row.state == "failed" for row in rows) else 0


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run,
    "list": list_choices,
    "report": report_again,
    "check": check,
    "data": data,
    "doctor": doctor,
    "clean": clean,
}
