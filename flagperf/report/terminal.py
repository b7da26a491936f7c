"""The table at the end of a run, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flagperf.report import cells
from flagperf.schema import Summary
from flagperf.summary import verdict

if TYPE_CHECKING:
    from rich.console import Group

COLOURS = {"VALID": "green", "SUSPECT": "yellow", "INVALID": "red"}
FIGURES = ("e2e_time [s]", "p_whole", "p_train", "p_core", "unit", "mem [GiB]", "MFU")


def terminal_table(summaries: Sequence[Summary]) -> Group:
    """One line a job, then whatever keeps its numbers from being believed or compared."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("job", overflow="fold")
    for name in FIGURES:
        table.add_column(name, justify="left" if name == "unit" else "right")
    for name in ("accuracy", "target", "verdict"):
        table.add_column(name)
    for summary in summaries:
        row, found = cells.row(summary), verdict(summary)
        figures = [row[name] for name in (*FIGURES, "accuracy", "target")]
        table.add_row(summary.name, *figures, Text(found, style=COLOURS[found]))
    lines = [Text(f"{line}", style="yellow") for line in cells.warnings(summaries)]
    for summary in summaries:
        for result in summary.results:
            colour = COLOURS[result.verdict]
            lines += [Text(f"{summary.name} round {result.round}: {reason}", style=colour) for reason in result.reasons]
    return Group(table, *lines)
