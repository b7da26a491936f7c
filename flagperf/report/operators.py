"""The operators of probe=operators as a table and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flagperf.report.cells import ABSENT, number, percent
from flagperf.report.page import grid, render
from flagperf.results.fabric import duration
from flagperf.results.operators import MeasuredOperator

NOTE = (
    "Time: a call on the slowest device, after the first call. Share: operations / time over the peak, or bytes of "
    "inputs and results / time over the memory bandwidth; the larger of both. Error: norm of the difference to float64 "
    "on the CPU over its norm; for whole numbers and truth values the share of elements that differ."
)


def operator_rows(
    operators: Sequence[MeasuredOperator], peaks: Mapping[str, float], memory: float | None
) -> list[dict[str, str]]:
    """A row for each operator.

    Args:
        peaks: number format → FLOP/s of a device.
        memory: bytes/s of a device.
    """
    return [_row(operator, operator.share(peaks, memory)) for operator in operators]


def _row(operator: MeasuredOperator, share: tuple[float, str] | None) -> dict[str, str]:
    return {
        "operator": operator.name,
        "format": operator.format,
        "shapes": ", ".join("x".join(map(str, shape)) for shape in operator.shapes),
        "first call": ABSENT if operator.first is None else duration(operator.first),
        "time": ABSENT if operator.seconds is None else duration(operator.seconds),
        "GFLOP/s": ABSENT if operator.rate is None else number(operator.rate / 1e9),
        "share": ABSENT if share is None else percent(share[0]),
        "of": ABSENT if share is None else share[1],
        "error": ABSENT if operator.error is None else f"{operator.error:.2g}",
    }


def missing_lines(operators: Sequence[MeasuredOperator]) -> list[str]:
    """The operators without figures, and why."""
    return [f"{operator.name}: {operator.reason}" for operator in operators if operator.reason]


def operators_page(job: str, rows: Sequence[Mapping[str, str]], lines: Sequence[str]) -> str:
    """report.html of probe=operators.

    Args:
        job: its name.
        lines: sentences above the table.
    """
    tables = [("Operators", grid(rows))]
    return render("probe.html.j2", {}, name=job, found=lines, tables=tables, place="", note=NOTE)
