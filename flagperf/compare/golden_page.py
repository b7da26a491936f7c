"""A training and its golden curve as one HTML file, on the frame and with the plots of report.html."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flagperf.contract.golden import NUMBERS, Check
from flagperf.report.page import render
from flagperf.report.plots import Chart, lines

CHARTS = "golden"  # of the page, by this name in its template
TITLES = {"loss": "Loss", "grad_norm": "Norm of the gradients"}


def page(job: str, check: Check) -> str:
    """The whole page. `job`: the name of the training."""
    return render(
        "golden.html.j2",
        {CHARTS: list(charts(check))},
        folder=Path(__file__).parent,
        name=job,
        curve=check.golden.name,
        outcome="passed" if check.inside else "failed",
        verdict=check.verdict,
        charts_name=CHARTS,
        metrics=[
            (name, expected, check.measured.metrics.get(name), check.band.metrics[name])
            for name, expected in check.golden.curve.metrics.items()
        ],
    )


def charts(check: Check) -> Iterator[Chart]:
    """Loss and gradient norm with their bands, and how far they lie from the curve."""
    for name in NUMBERS:
        expected, measured, widths = (
            list(getattr(curve, name)) for curve in (check.golden.curve, check.measured, check.band)
        )
        series = {"golden": _points(expected), "this device": _points(measured)}
        pairs = enumerate(zip(expected, widths, strict=True), 1)
        area = [[step, value - width, value + width] for step, (value, width) in pairs]
        yield lines(f"{TITLES[name]}, and the band of {check.precision}", "step", name, series, band=area)
    ratios = {name: [[there.step, there.ratio] for there in check.distances if there.name == name] for name in NUMBERS}
    yield lines("Distance from the curve", "step", "bands", ratios, marks=[{"at": 1, "label": "the band"}], zero=True)


def _points(values: list[float]) -> list[list[float]]:
    return [[step, value] for step, value in enumerate(values, 1)]
