"""What the plots of report.html show, as plain data; the scripts draw it.

A chart is a mapping with `kind` (lines, bars, spans or dots), `title`, axis labels and its data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.perflog import Event
from flagperf.report.cells import condition, number
from flagperf.report.monitor_curves import curves
from flagperf.report.tables import figure_units
from flagperf.results.rank_log import first_rank_log, node_folders
from flagperf.results.summary import usable
from flagperf.results.sys_info import clock_offset
from flagperf.results.values import Result, Summary

Chart = dict[str, Any]
Point = list[float]

MOST_POINTS = 600  # of one curve; a longer one is thinned
BINS = 24
AFTER_TRAINING = ("stop", "collect", "clean")  # phases of the launcher
SHORTEST = 1e-3  # seconds; shorter phases are not shown


def job_charts(job_folder: Path, summary: Summary) -> list[Chart]:
    """All charts of one job that have data."""
    logs = {result.round: first_rank_log(job_folder / f"round{result.round}") for result in summary.results}
    rounds = {number: log.events if log else () for number, log in logs.items()}
    first = next((result for result in summary.results if rounds[result.round]), None)
    charts = [*_curves(summary, rounds), _step_times(rounds), _spread(summary)]
    if first:
        charts += [_waterfall(first, rounds[first.round])]
        charts += _monitors(job_folder / f"round{first.round}", first, rounds[first.round])
    return [chart for chart in charts if chart]


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


def histogram(values: Sequence[float], bins: int = BINS) -> list[list[float]]:
    """[from, to, how many] of bins of one width."""
    low, high = min(values), max(values)
    width = (high - low) / bins or max(abs(low), 1e-9) / bins
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / width))] += 1
    return [[low + width * index, low + width * (index + 1), count] for index, count in enumerate(counts)]


def _values(events: Sequence[Event], event: str, x: str, y: str, factor: float = 1.0) -> list[Point]:
    found = [found.value for found in events if found.event == event]
    points = [(value.get(x), value.get(y)) for value in found]
    return [[a, b * factor] for a, b in points if a is not None and b is not None and math.isfinite(b)]


def lines(title: str, x: str, y: str, series: Mapping[str, Sequence[Point]], **more: Any) -> Chart:
    """A plot of curves, those without points left out; {} where there is none.

    Args:
        series: name → points [x, y], by x. JSON must be able to hold them: no NaN.
        more: `zero`: y begins at 0; `dots`: each point is marked; `marks`: [{at, label}], levels of y;
            `band`: [[x, low, high]], an area behind the curves.
    """
    shown = [{"name": name, "points": thin(points)} for name, points in series.items() if points]
    return {"kind": "lines", "title": title, "x": x, "y": y, "series": shown, **more} if shown else {}


def _curves(summary: Summary, rounds: Mapping[int, Sequence[Event]]) -> Iterator[Chart]:
    def series(event: str, name: str) -> dict[str, list[Point]]:
        return {f"round {number}": _values(events, event, "step", name) for number, events in rounds.items()}

    yield lines("Loss", "step", "loss", series("STEP_END", "loss"), zero=True)
    target = summary.results[0].target if summary.results else None
    if target:
        marks = [{"at": target.value, "label": f"target {condition(target)}"}]
        unit = f"{target.metric} [{target.unit}]" if target.unit else target.metric
        yield lines(
            "Metric of the evaluations", "step", unit, series("EVALUATE", target.metric), marks=marks, dots=True
        )
    rate = summary.config["throughput_unit"]
    yield lines("Throughput of the job", "step", rate, series("STEP_END", "throughput"), zero=True)


def _step_times(rounds: Mapping[int, Sequence[Event]]) -> Chart:
    """How long steps took, over all rounds; a value is the mean of the steps between two log lines."""
    times = [y for events in rounds.values() for _, y in _values(events, "STEP_END", "step", "step_time", 1000)]
    if len(times) < 2:
        return {}
    finished = [event.value for events in rounds.values() for event in events if event.event == "FINISHED"]
    marks = []
    for name in ("p50", "p90", "p99"):
        found = [value[f"step_time_{name}"] for value in finished if value.get(f"step_time_{name}") is not None]
        if found:
            marks.append({"at": 1000 * sum(found) / len(found), "label": name})
    return {
        "kind": "bars",
        "title": "Step time",
        "x": "ms, mean between two log lines",
        "y": "log lines",
        "bars": histogram(times),
        "marks": marks,
    }


def _spread(summary: Summary) -> Chart:
    """Each figure of each round as the deviation from its mean."""
    units, rows = figure_units(summary), []
    for name, figure in summary.statistics.items():
        if not figure.stdev or not figure.mean:
            continue
        points = [
            {
                "x": 100 * (value / figure.mean - 1),
                "series": index,
                "tip": f"round {result.round}: {number(value)} {units.get(name, '')}",
            }
            for index, result in enumerate(usable(summary.results))
            if (value := result.values.get(name)) is not None
        ]
        rows.append({"name": name, "points": points})
    return {"kind": "dots", "title": "Rounds against their mean", "x": "% from the mean", "rows": rows} if rows else {}


def _waterfall(result: Result, events: Sequence[Event]) -> Chart:
    """Where the time of a round went: phases of the launcher per node, and what rank 0 did, on one time axis."""
    rows = []
    for node, phases in result.phases.items():
        rows.append(
            {"name": node.replace("_noderank", " · node rank "), "spans": list(_phases(phases, result.seconds))}
        )
    started = result.started if result.started is not None else events[0].time_ms / 1000
    rows.append({"name": "rank 0", "spans": [[a - started, b - started, label] for a, b, label in _training(events)]})
    return {"kind": "spans", "title": f"Where the time went, round {result.round}", "x": "s", "rows": rows}


def _phases(phases: Mapping[str, float], whole: float | None) -> Iterator[list[Any]]:
    """The launcher's phases one after another. Those after the training end when the round does."""
    at = 0.0
    training = (whole or 0.0) - sum(phases.values())
    for phase, seconds in phases.items():
        if phase == AFTER_TRAINING[0] and training > 0:
            yield [at, at + training, "train"]
            at += training
        if seconds >= SHORTEST:
            yield [at, at + seconds, phase.replace("_", " ")]
        at += seconds


def _training(events: Sequence[Event]) -> Iterator[tuple[float, float, str]]:
    """What rank 0 did, from its PerfLog: seconds since the epoch, and a name."""
    at = {event.event: event.time_ms / 1000 for event in reversed(events)}
    step = at.get("STEP_END")
    evaluations = [(e.time_ms / 1000, float(e.value.get("time") or 0)) for e in events if e.event == "EVALUATE"]
    for begin, end, name in (
        (at.get("SUBMIT_INFO"), at.get("INIT_START"), "imports"),
        (at.get("INIT_START"), at.get("INIT_END"), "init"),
        (at.get("INIT_END"), step, "first step"),
        (step, at.get("TRAIN_END"), "train"),
    ):
        if begin is not None and end is not None:
            yield begin, end, name
    for end, seconds in evaluations:
        yield end - seconds, end, "evaluate"


def _monitors(round_folder: Path, result: Result, events: Sequence[Event]) -> Iterator[Chart]:
    """A chart per figure that the monitors logged, a line a node; seconds count from the start of rank 0."""
    begin = events[0].time_ms / 1000
    found: dict[str, dict[str, list[Point]]] = {}
    for host, node_rank, folder in node_folders(round_folder):
        zero = begin + clock_offset(folder)  # by the clock of that node
        for title, points in curves(folder, result.monitors.get("nodes", {}).get(folder.name, {})).items():
            found.setdefault(title, {})[f"{host} · node rank {node_rank}"] = [[x - zero, y] for x, y in points]
    for title, series in found.items():
        yield lines(title, f"s, round {result.round}", title.rpartition(", ")[2], series, zero=True)
