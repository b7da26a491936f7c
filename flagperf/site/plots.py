"""The plots of a case: throughput against energy, price and number of devices, and a product over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flagperf.report.cells import number
from flagperf.report.plots import Chart, Point, lines, scatter
from flagperf.report.texts import Translate
from flagperf.site.entries import Entry

COSTS: dict[str, Callable[[Entry], float | None]] = {  # what less of is better, as a text of the site
    "energy of a sample [J]": lambda entry: entry.energy,
    "price of an hour": lambda entry: entry.price,
    "number of devices": lambda entry: float(entry.devices),
}


WITHOUT = {  # cost → what a page says in place of its plot
    "energy of a sample [J]": "No plot shows energy: it was measured in fewer than two rows.",
    "price of an hour": "No plot shows the price: fewer than two rows have one.",
}


def charts(entries: Sequence[Entry], translate: Translate) -> list[Chart]:
    """The plots of a case. A plot needs two values on its x axis."""
    return [chart for chart in (*_against_costs(entries, translate), *_over_time(entries, translate)) if chart]


def missing(entries: Sequence[Entry], translate: Translate) -> list[str]:
    """A sentence for each plot that lacks figures."""
    return [translate(text) for cost, text in WITHOUT.items() if len({at for _, at, _ in _known(entries, cost)}) < 2]


def _known(entries: Sequence[Entry], cost: str) -> list[tuple[Entry, float, float]]:
    """The rows that have a cost and a throughput, with both."""
    return [
        (entry, at, entry.rate)
        for entry in entries
        if entry.counts and entry.rate is not None and (at := COSTS[cost](entry)) is not None
    ]


def front(points: Sequence[tuple[float, float]]) -> list[Point]:
    """The points (cost, throughput) that no other point beats: a higher throughput at the same or a lower cost."""
    best: list[Point] = []
    for cost, rate in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or rate > best[-1][1]:
            best.append([cost, rate])
    return best


def _against_costs(entries: Sequence[Entry], translate: Translate) -> Iterator[Chart]:
    for cost in COSTS:
        known = _known(entries, cost)
        points = [(at, rate) for _, at, rate in known]
        if len({at for at, _ in points}) < 2:
            continue
        names = [name for name, _ in Counter(entry.product for entry, _, _ in known).most_common()]
        shown: list[dict[str, Any]] = [
            {"series": names.index(entry.product), "x": at, "y": rate, "tip": _tip(entry, cost, at, translate)}
            for entry, at, rate in known
        ]
        title, axis = f"{translate('throughput')} – {translate(cost)}", translate("throughput")
        yield scatter(title, translate(cost), f"{axis} [{entries[0].unit}]", names, shown, front(points))


def _over_time(entries: Sequence[Entry], translate: Translate) -> Iterator[Chart]:
    """A plot of each product, with a curve for each scale and precision, and for each choice of other settings."""
    timed = [entry for entry in entries if entry.counts and entry.started is not None]
    for product in sorted({entry.product for entry in timed}):
        series: dict[str, list[Point]] = {}
        days: dict[float, str] = {}
        of_product = [entry for entry in timed if entry.product == product]
        varied = _varied(of_product)
        for entry in sorted(of_product, key=lambda entry: entry.started or 0):
            if entry.started is not None and entry.rate is not None:
                name = ", ".join([f"{entry.scale} {entry.precision}", *_settings(entry, varied)])
                series.setdefault(name, []).append([entry.started, entry.rate])
                days[entry.started] = entry.day
        if any(len(points) > 1 for points in series.values()):
            y = f"{translate('throughput')} [{entries[0].unit}]"
            title = f"{product}: {translate('throughput over time')}"
            labels = [[at, text] for at, text in days.items()]
            yield lines(title, translate("day"), y, series, zero=True, dots=True, labels=labels)


def _chosen(entry: Entry) -> dict[str, str]:
    """Key → value, of a sweep, an experiment or the command line. Tunings are a part of what a trend shows."""
    changed = {change.key: str(change.after) for change in entry.changes if not change.source.startswith("tuning")}
    return {**changed, **dict(text.partition("=")[::2] for text in entry.swept)}


def _varied(entries: Sequence[Entry]) -> list[str]:
    """The settings that are not the same in all of these rows."""
    chosen = [_chosen(entry) for entry in entries]
    keys = dict.fromkeys(key for each in chosen for key in each)
    return [key for key in keys if len({each.get(key) for each in chosen}) > 1]


def _settings(entry: Entry, keys: Sequence[str]) -> list[str]:
    chosen = _chosen(entry)
    return [f"{key}={chosen[key]}" for key in keys if key in chosen]


def _tip(entry: Entry, cost: str, at: float, translate: Translate) -> str:
    label = f"{entry.product} {entry.scale}, {entry.precision}, {translate(entry.verdict)}"
    return f"{label}\n{number(entry.rate)} {entry.unit}\n{translate(cost)}: {number(at)}"
