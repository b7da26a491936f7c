"""What `flagperf doctor` and `flagperf clean` share: the job whose cluster they look at, and the table they print."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.markup import escape
from rich.table import Table

from flagperf.config.compose import compose
from flagperf.config.schema.values import JobConfig
from flagperf.errors import THIS_MACHINE, ConfigError, FlagperfError, HostError
from flagperf.run.console import print_unfolded

COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}  # of each state


@dataclass(frozen=True)
class Row:
    """What one check found on one host, and what to do about it."""

    host: str
    check: str
    state: Literal["ok", "warning", "failed", "skipped"]
    found: str
    advice: str = ""


def failed_row(host: str, check: str, error: FlagperfError) -> Row:
    """The row of an error."""
    problem, advice = getattr(error, "problem", str(error)), getattr(error, "advice", None) or ""
    if isinstance(error, ConfigError):
        problem = f"{error.where}: {problem}" if error.where == THIS_MACHINE else problem
        problem += f" ({error.key}={error.given})" if error.key else ""
        advice = "\n".join(filter(None, [advice, error.allowed and f"allowed: {error.allowed}"]))
    return Row(host, check, "failed", problem, advice)


def look_at_cluster(
    options: argparse.Namespace, look: Callable[[JobConfig], Coroutine[Any, Any, Sequence[Row]]]
) -> int:
    """Compose one job, look at its cluster, and print what was found. Returns the exit code."""
    job = compose([*options.arguments, "dry_run=true"], options.config_dir)  # which needs no data_dir
    if job.cluster.kubernetes:
        advice = "kubectl describe nodes shows what they have; dry_run=true shows what a run asks of them"
        raise ConfigError(
            "flagperf reaches no host of Kubernetes", key="cluster", given=job.cluster.name, advice=advice
        )
    return print_rows(asyncio.run(look(job)))


def print_rows(rows: Sequence[Row]) -> int:
    """Print a table in which what to do stands below what was found. A line is folded to fit a terminal, never a file.

    Returns the exit code: 3 when a row failed.
    """
    table = Table("host", "check", "state", box=None, pad_edge=False)
    table.add_column("found", overflow="fold")  # a long path is shown whole
    for row in rows:
        told = f"{row.found}\ndo: {row.advice}" if row.advice else row.found
        table.add_row(row.host, row.check, f"[{COLOURS[row.state]}]{row.state}[/]", escape(told))
    print_unfolded(table)
    return HostError.exit_code if any(row.state == "failed" for row in rows) else 0
