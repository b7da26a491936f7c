"""The plots of a page, as plain data that the scripts draw.

A chart is a mapping with `kind` (lines, spans or dots), `title`, axis labels with units, and its data. {} is no chart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Chart = dict[str, Any]
Point = list[float]

MOST_POINTS = 600  # of a curve; a longer curve is thinned


def lines(title: str, x: str, y: str, series: Mapping[str, Sequence[Point]], **more: Any) -> Chart:
    """A plot of curves; {} where no curve has points.

    Args:
        series: name → points [x, y] in the order of x. Points that are not finite are left out.
        more: `zero`: y begins at 0; `dots`: each point is marked; `marks`: [{at, label}], levels of y;
            `band`: [[x, low, high]], an area behind the curves; `shade`: {to, label}, an area from the left up to an x;
            `ideal`: [from, to], a line y = x between these values; `labels`: [[x, text]], texts below the x axis
            instead of numbers.
    """
    finite = {name: [point for point in points if all(map(math.isfinite, point))] for name, points in series.items()}
    shown = [{"name": name, "points": thin(points)} for name, points in finite.items() if points]
    return {"kind": "lines", "title": title, "x": x, "y": y, "series": shown, **more} if shown else {}


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
