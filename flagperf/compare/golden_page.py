"""A training and its golden curve as one HTML file, on the frame and with the plots of report.html."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flagperf.compare.golden import Held
from flagperf.report.page import render
from flagperf.report.plots import Chart, lines

PLACE = "golden"
TITLES = {"loss": "Loss", "grad_norm": "Norm of the gradients"}


def page(job: str, held: Held) -> str:
    """The whole page. `job`: the name of the training."""
    return render(
        "golden.html.j2",
        {PLACE: list(charts(held))},
        folder=Path(__file__).parent,
        name=job,
        curve=held.golden.name,
        outcome="passed" if held.inside else "failed",
        told=held.told(),
        place=PLACE,
        metrics=[
            (name, value, held.found.metrics.get(name), held.golden.bands[held.precision].metrics[name])
            for name, value in held.golden.curve.metrics.items()
        ],
    )


def charts(held: Held) -> Iterator[Chart]:
    """Loss and gradient norm with their bands, and how far they lie from the curve."""
    band, curve = held.golden.bands[held.precision], held.golden.curve
    for key, title in TITLES.items():
        golden, found, widths = (list(getattr(one, key)) for one in (curve, held.found, band))
        series = {"golden": _points(golden), "this device": _points(found)}
        pairs = zip(golden, widths, strict=True)
        area = [[step, value - width, value + width] for step, (value, width) in enumerate(pairs, 1)]
        yield lines(f"{title}, and the band of {held.precision}", "step", key, series, band=area)
    ratios = {key: [[step, ratio] for ratio, name, step in held.ratios if name == key] for key in TITLES}
    yield lines("Distance from the curve", "step", "bands", ratios, marks=[{"at": 1, "label": "the band"}], zero=True)


def _points(values: list[float]) -> list[list[float]]:
    return [[step, value] for step, value in enumerate(values, 1)]
