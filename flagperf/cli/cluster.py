"""Common parts of `flagperf doctor` and `flagperf clean`: the job whose cluster they check, and their table."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from flagperf.config.compose import compose
from flagperf.config.schema.values import JobConfig
from flagperf.errors import HostError
from flagperf.hosts.findings import Row
from flagperf.run.console import print_unfolded

COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}  # of each state


def look_at_cluster(
    options: argparse.Namespace, look: Callable[[JobConfig], Coroutine[Any, Any, Sequence[Row]]]
) -> int:
    """Compose a job, look at its cluster, and print the rows. Returns the exit code."""
    job = compose([*options.arguments, "dry_run=true"], options.config_dir)  # a dry run needs no data_dir
    return print_rows(asyncio.run(look(job)))


def print_rows(rows: Sequence[Row]) -> int:
    """Print rows as a table, with the advice below each finding. Lines are folded in a terminal only.

    Returns the exit code: 3 where a row failed.
    """
    table = Table("host", "check", "state", box=None, pad_edge=False)
    table.add_column("found", overflow="fold")  # a long path is shown whole
    for row in rows:
        text = f"{row.text}\ndo: {row.advice}" if row.advice else row.text
        table.add_row(row.host, row.check, f"[{COLOURS[row.state]}]{row.state}[/]", escape(text))
    print_unfolded(table)
    return HostError.exit_code if any(row.state == "failed" for row in rows) else 0
