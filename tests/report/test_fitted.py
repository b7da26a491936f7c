"""Tables of the terminal: words stay whole at 80 columns, and nothing is folded in a pipe."""

from __future__ import annotations

import io

import pytest
from example_results import a_result
from rich.console import Console
from test_report import VALUES, a_summary

from flagperf.report import terminal_table
from flagperf.report.fitted import FittedTable, fitted
from flagperf.run.console import Terminal


@pytest.mark.parametrize(
    ("widest", "narrowest", "room", "widths"),
    [
        pytest.param([10, 20], [4, 5], 30, [10, 20], id="there is room"),
        pytest.param([10, 40], [4, 5], 30, [10, 20], id="the widest column gives"),
        pytest.param([30, 40], [4, 5], 50, [25, 25], id="both give"),
        pytest.param([30, 40], [28, 5], 50, [28, 22], id="but no more than to the longest word"),
        pytest.param([30, 40], [28, 23], 50, None, id="too little room"),
    ],
)
def test_widths(widest: list[int], narrowest: list[int], room: int, widths: list[int] | None) -> None:
    assert fitted(widest, narrowest, room) == widths


def shown(table: FittedTable, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as text:
        console.print(table)
    return [line.rstrip() for line in text.get().splitlines()]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        pytest.param(
            50,
            ["figure      base                   other", "throughput  72.08 images a second  80 images"],
            id="in a line",
        ),
        pytest.param(
            36,
            ["figure      base           other", "throughput  72.08 images   80 images", "            a second"],
            id="broken between words",
        ),
        pytest.param(
            24,
            ["figure  throughput", "base    72.08 images a", "        second", "other   80 images", ""],
            id="a block a row",
        ),
    ],
)
def test_table(width: int, lines: list[str]) -> None:
    table = FittedTable()
    for head in ("figure", "base", "other"):
        table.add_column(head)
    table.add_row("throughput", "72.08 images a second", "80 images")
    assert shown(table, width) == lines


LONG = "optimizer._target_=torch.optim.AdamW"


def test_jobs_stand_below_each_other_where_words_would_break() -> None:
    """Each job of a sweep is called by its swept values."""
    jobs = [a_summary(a_result(values=VALUES), name=f"resnet50-A100,{LONG}{number},lr=0.1") for number in range(1, 4)]
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as text:
        console.print(terminal_table(jobs))
    words = text.get().split()
    assert [words.count(f"{LONG}{number}") for number in range(1, 4)] == [1, 1, 1]
    assert words.count("p_train") == 3


def test_nothing_is_folded_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    text = "word " * 100
    Terminal().print(text)
    assert capsys.readouterr().out == f"{text}\n"
