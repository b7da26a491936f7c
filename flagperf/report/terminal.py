"""The table at the end of a run, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flagperf.contract.records import Summary
from flagperf.report import cells, remarks

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

STYLES = {"VALID": "green", "SUSPECT": "yellow", "RUNNING": "cyan", "INVALID": "red"}
UPRIGHT = 3  # up to so many jobs get a column each, so that a narrow terminal shows everything
WIDEST_UNIT = 11  # columns; audio samples/s takes two lines
SHORT = ("verdict", "p_whole", "p_train", "p_core", "unit", "accuracy")  # the columns where each job gets a line


def terminal_table(summaries: Sequence[Summary]) -> Group:
    """The table of results, then warnings and the reasons of verdicts."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = [cells.row(summary) for summary in summaries]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    if len(rows) <= UPRIGHT:
        table.add_column("")
        for summary in summaries:
            table.add_column(Text(summary.name), overflow="fold")
        for name in rows[0] if rows else ():
            if any(row[name] != cells.ABSENT for row in rows):
                table.add_row(Text(name), *(styled(row[name]) for row in rows))
    else:
        table.padding = (0, 1, 0, 0)
        table.add_column("job", overflow="fold")
        for name in SHORT:
            table.add_column(name, no_wrap=name != "unit", max_width=WIDEST_UNIT if name == "unit" else None)
        for summary, row in zip(summaries, rows, strict=True):
            name = summary.name
            if summary.identity.main_framework:  # there is little room
                name = name.replace(f"-{summary.identity.framework}-", "-", 1)
            table.add_row(Text(name), *(styled(row[column]) for column in SHORT))
    return Group(table, *_remarks(summaries))


def _remarks(summaries: Sequence[Summary]) -> Iterator[Text]:
    from rich.text import Text

    for warning in remarks.warnings(summaries):
        yield Text(warning, style="yellow")
    for part, verdict, reasons, _ in remarks.problems_of_run(summaries):
        for reason in reasons:
            yield Text(f"{part}: {reason}", style=STYLES[verdict])


def styled(text: str) -> Text:
    """A cell of the table, where a verdict has its colour."""
    from rich.text import Text

    return Text(text, style=STYLES.get(text.strip(), ""))
