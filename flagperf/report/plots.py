"""A plot of a page, as plain data that the scripts draw.

A chart is a mapping with `kind` (lines, spans or dots), `title`, axis labels with units, and its data. {} is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Chart = dict[str, Any]
Point = list[float]

MOST_POINTS = 600  # of one curve; a longer one is thinned


def lines(title: str, x: str, y: str, series: Mapping[str, Sequence[Point]], **more: Any) -> Chart:
    """A plot of curves, those without points left out; {} where there is none.

    Args:
        series: name → points [x, y], by x; those that are not finite are left out.
        more: `zero`: y begins at 0; `dots`: each point is marked; `marks`: [{at, label}], levels of y;
            `band`: [[x, low, high]], an area behind the curves; `shade`: {to, label}, an area from the left up to an x;
            `ideal`: [from, to], a line y = x between them; `labels`: [[x, text]], what stands below the x axis in place
            of round numbers.
    """
    finite = {name: [point for point in points if all(map(math.isfinite, point))] for name, points in series.items()}
    shown = [{"name": name, "points": thin(points)} for name, points in finite.items() if points]
    return {"kind": "lines", "title": title, "x": x, "y": y, "series": shown, **more} if shown else {}


def dots(
    title: str, x: str, names: Sequence[str], rows: Mapping[str, Mapping[int, tuple[float, str]]], **more: Any
) -> Chart:
    """A plot with a line of dots a row; {} where there are none.

    Args:
        names: what the colours stand for.
        rows: name → which of `names` → x, and what is said of the dot.
        more: `centre`: 0 is in the middle, and marked.
    """
    shown = [
        {"name": row, "points": [{"series": index, "x": at, "tip": tip} for index, (at, tip) in points.items()]}
        for row, points in rows.items()
        if points
    ]
    return {"kind": "dots", "title": title, "x": x, "names": list(names), "rows": shown, **more} if shown else {}


def thin(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most about `most` points: of each stretch only the lowest and the highest stay."""
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
