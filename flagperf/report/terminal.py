"""The table at the end of a run, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flagperf.contract.records import Summary
from flagperf.report import cells, remarks
from flagperf.report.cost import cost_texts
from flagperf.report.run_charts import job_names
from flagperf.report.slow_ranks import slow_rank_lines
from flagperf.report.tables import formula_lines
from flagperf.results.summary import usable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group
    from rich.table import Table
    from rich.text import Text

STYLES = {"VALID": "green", "SUSPECT": "yellow", "RUNNING": "cyan", "INVALID": "red"}
UPRIGHT = 3  # up to so many jobs get a column each, so that a narrow terminal shows everything
SHORT = ("verdict", "p_whole", "p_train", "p_core", "unit", "accuracy")  # the columns where each job gets a line


def terminal_table(summaries: Sequence[Summary]) -> Group:
    """The table of results, each MFU of language models, then warnings and the reasons of verdicts."""
    from rich.console import Group

    few = len(summaries) <= UPRIGHT
    return Group(
        _Upright(summaries) if few else _flat(summaries),
        *(_by_formula(summaries) if few else ()),
        *_remarks(summaries),
    )


def _by_formula(summaries: Sequence[Summary]) -> Iterator[Text]:
    """The MFUs of each job whose first round that counts has them, by formula."""
    from rich.text import Text

    for name, summary in zip(job_names(summaries), summaries, strict=True):
        rounds = [result for result in usable(summary.results) if result.values.get("mfu_formula") is not None]
        for line in formula_lines(summary, rounds[:1]):
            yield Text(f"{name}: {line}")


class _Upright:
    """A column for each job; a table for each job where the columns would break words."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        self._summaries = summaries

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        from flagperf.report.fitted import UNLIMITED

        jobs = [*zip(job_names(self._summaries), self._summaries, strict=True)] if self._summaries else []
        table = _upright(jobs)
        narrow = console.measure(table, options=options.update_width(UNLIMITED)).minimum > options.max_width
        yield from (_upright([job]) for job in jobs) if narrow else (table,)


def _upright(jobs: Sequence[tuple[str, Summary]]) -> Table:
    """A column for each job, with its name above."""
    from rich.table import Table
    from rich.text import Text

    rows = [cells.row(summary) for _, summary in jobs]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("")
    for name, _ in jobs:
        table.add_column(Text(name), overflow="fold")
    for figure in rows[0] if rows else ():
        if any(row[figure] != cells.ABSENT for row in rows):
            table.add_row(Text(figure), *(styled(row[figure]) for row in rows))
    return table


def _flat(summaries: Sequence[Summary]) -> Table:
    from flagperf.report.fitted import FittedTable

    table = FittedTable(padding=(0, 1, 0, 0))
    rows = [
        {"job": name, **{column: row[column] for column in SHORT}}
        for name, row in zip(job_names(summaries), map(cells.row, summaries), strict=True)
    ]
    shown = cells.without_absent(rows)
    for name in shown[0]:
        table.add_column(name)
    for row in shown:
        table.add_row(*map(styled, row.values()))
    return table


def _remarks(summaries: Sequence[Summary]) -> Iterator[Text]:
    from rich.text import Text

    for warning in remarks.warnings(summaries):
        yield Text(warning, style="yellow")
    for summary in summaries:
        if len(summaries) <= UPRIGHT:
            for line in cost_texts(summary.results):
                yield Text(f"{summary.name}: {line}" if len(summaries) > 1 else line)
        for line in slow_rank_lines(summary.results):
            yield Text(f"{summary.name}: {line}" if len(summaries) > 1 else line, style="yellow")
    for part, verdict, reasons, _ in remarks.problems_of_run(summaries):
        for reason in reasons:
            yield Text(f"{part}: {reason}", style=STYLES[verdict])


def styled(text: str) -> Text:
    """A cell of the table, where a verdict has its colour."""
    from rich.text import Text

    return Text(text, style=STYLES.get(text.strip(), ""))
