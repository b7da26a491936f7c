"""The plots of a page, as plain data that the scripts draw.

A chart is a mapping with `kind` (lines, number, spans, dots, intervals, scatter), `title`, labels of axes with units,
and data. {} is no chart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flagperf.report.cells import number

Chart = dict[str, Any]
Point = list[float]

MOST_POINTS = 600  # of a curve; a longer curve is thinned


def lines(
    title: str,
    x: str,
    y: str,
    series: Mapping[str, Sequence[Point]],
    *,
    earlier: Mapping[str, Sequence[Point]] | None = None,
    **more: Any,
) -> Chart:
    """A plot of curves; a number for each curve where no curve has two points; {} where no curve has points.

    Args:
        series: name → points [x, y] in the order of x. The first y of a curve that is not finite gets a mark.
        earlier: name in `series` → points of the run that this curve resumes.
        more: `zero`: y begins at 0; `named`: a legend also for a single curve; `dots`: each point is marked;
            `marks`: [{at, label}], levels of y;
            `band`: [[x, low, high]], an area behind the curves; `shade`: {to, label}, an area from the left up to an x;
            `ideal`: [from, to], a line y = x between these values; `labels`: [[x, text]], texts below the x axis
            instead of numbers.
    """
    finite = {name: [point for point in points if all(map(math.isfinite, point))] for name, points in series.items()}
    shown: list[Chart] = [{"name": name, "points": thin(points)} for name, points in finite.items() if points]
    colours = {name: colour for colour, name in enumerate(series)}
    for position, curve in enumerate(shown):
        if (
            colours[curve["name"]] != position
        ):  # a curve without points keeps its colour, so plots beside each other agree
            curve["colour"] = colours[curve["name"]]
    lost = _lost(series)
    if not shown and not lost:
        return {}
    chart = {"title": title, "x": x, "y": y}
    if all(len(points) <= 1 for points in finite.values()) and not (lost or any((earlier or {}).values())):
        return {"kind": "number", **chart, "numbers": [_number(chart, curve, more) for curve in shown]}
    names = [curve["name"] for curve in shown]
    for name, points in (earlier or {}).items():
        if points and name in names:
            before = {"name": f"{name}, before it was resumed", "points": thin(points)}
            shown.append({**before, "colour": colours[name], "earlier": True})
    return {"kind": "lines", **chart, "series": shown, **({"lost": lost} if lost else {}), **more}


def _lost(series: Mapping[str, Sequence[Point]]) -> list[list[Any]]:
    """[x, text] of the first value of each curve that is not finite: [5, "NaN"], [5, "round 2: NaN"]."""
    values = {name: [(x, y) for x, y in points if not math.isfinite(y)][:1] for name, points in series.items()}
    return [
        [x, (f"{name}: " if len(series) > 1 else "") + ("NaN" if math.isnan(y) else str(y))]
        for name, first in values.items()
        for x, y in first
    ]


def _number(chart: Mapping[str, str], curve: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, str]:
    """The only point of a curve as text."""
    ((x, y),) = curve["points"]
    label = dict(more.get("labels", ())).get(x) or number(x)
    marks = [mark["label"] for mark in more.get("marks", ()) if mark["label"]]
    note = "; ".join([f"{chart['y']} where {chart['x'].partition(',')[0]} is {label}", *marks])
    return {"name": curve["name"], "value": number(y), "note": note}


def dots(
    title: str, x: str, names: Sequence[str], rows: Mapping[str, Mapping[int, tuple[float, str]]], **more: Any
) -> Chart:
    """A plot with a line of dots in each row; {} where no row has dots.

    Args:
        names: the meanings of the colours.
        rows: name → index into `names` → x, and the tooltip of the dot.
        more: `centre`: 0 is in the middle, and marked.
    """
    shown = [
        {"name": row, "points": [{"series": index, "x": value, "tip": tip} for index, (value, tip) in points.items()]}
        for row, points in rows.items()
        if points
    ]
    return {"kind": "dots", "title": title, "x": x, "names": list(names), "rows": shown, **more} if shown else {}


def scatter(
    title: str, x: str, y: str, names: Sequence[str], points: Sequence[Mapping[str, Any]], front: Sequence[Point]
) -> Chart:
    """A plot of single points. Both axes begin at 0.

    Args:
        names: the meanings of the colours.
        points: each with `series` (an index into `names`), `x`, `y`, and `tip`, its tooltip.
        front: points [x, y] that a line of steps connects.
    """
    return {"kind": "scatter", "title": title, "x": x, "y": y, "names": names, "points": points, "front": front}


def thin(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """About `most` points at most: the lowest and the highest point of each stretch."""
    if len(points) <= most:
        return list(points)
    stretch = math.ceil(2 * len(points) / most)
    kept: list[Point] = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        extremes = {
            part.index(min(part, key=lambda point: point[1])),
            part.index(max(part, key=lambda point: point[1])),
        }
        kept += [part[index] for index in sorted(extremes)]
    return kept
