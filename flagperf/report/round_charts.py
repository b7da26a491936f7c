"""The plots of a round on one time axis: its phases, and the figures of the monitors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.perflog import Event
from flagperf.contract.records import Result
from flagperf.contract.sys_info import clock_offset
from flagperf.report.monitor_curves import curves
from flagperf.report.plots import Chart, Point, lines
from flagperf.results.rank_log import node_folders

PHASES = (  # the first seven have a colour each, the same in all plots; the others share one
    *("train", "evaluate", "first step", "init", "imports", "launch", "image"),
    *("compose", "connect", "check", "send", "start", "rendezvous", "stop", "collect", "clean"),
)
AFTER_TRAINING = ("stop", "collect", "clean")  # phases of the launcher
SHORTEST = 1e-3  # seconds; shorter phases are not shown


def round_charts(round_folder: Path, result: Result, events: Sequence[Event]) -> list[Chart]:
    """All charts of a round. `events` are of its first rank."""
    started = result.started if result.started is not None else events[0].time_ms / 1000
    time = f"time [s], since round {result.round} began"
    return [_waterfall(result, events, started, time), *_monitors(round_folder, result, started, time)]


def _waterfall(result: Result, events: Sequence[Event], started: float, time: str) -> Chart:
    """Phases of the launcher on each node, and of the first rank."""
    rows = [
        {"name": node.replace("_noderank", " · node rank "), "spans": list(_phases(phases, result.seconds))}
        for node, phases in result.phases.items()
    ]
    training = [[max(0.0, a - started), max(0.0, b - started), label] for a, b, label in _training(events)]
    rows.append({"name": f"rank {events[0].rank}", "spans": training})
    return {"kind": "spans", "title": "Where the time went", "x": time, "names": list(PHASES), "rows": rows}


def _phases(phases: Mapping[str, float], total: float | None) -> Iterator[list[Any]]:
    """The launcher's phases one after another. The phases after the training end when the round ends."""
    time = 0.0
    training = (total or 0.0) - sum(phases.values())
    for phase, seconds in phases.items():
        if phase == AFTER_TRAINING[0] and training > 0:
            yield [time, time + training, "train"]
            time += training
        if seconds >= SHORTEST:
            yield [time, time + seconds, phase.replace("_", " ")]
        time += seconds


def _training(events: Sequence[Event]) -> Iterator[tuple[float, float, str]]:
    """Begin, end (seconds since the epoch) and name of each phase of the first rank, from its PerfLog."""
    first_time = {event.event: event.time_ms / 1000 for event in reversed(events)}
    step = first_time.get("STEP_END")
    evaluations = [(e.time_ms / 1000, float(e.value.get("time") or 0)) for e in events if e.event == "EVALUATE"]
    for begin, end, name in (
        (first_time.get("SUBMIT_INFO"), first_time.get("INIT_START"), "imports"),
        (first_time.get("INIT_START"), first_time.get("INIT_END"), "init"),
        (first_time.get("INIT_END"), step, "first step"),
        (step, first_time.get("TRAIN_END"), "train"),
    ):
        if begin is not None and end is not None:
            yield begin, end, name
    for end, seconds in evaluations:
        yield end - seconds, end, "evaluate"


def _monitors(round_folder: Path, result: Result, started: float, time: str) -> Iterator[Chart]:
    """A chart for each figure of the monitors, with a line for each node.

    Monitors log whole seconds. The first sample may lie before the start; then the axis begins with the sample.
    """
    curves_of: dict[str, dict[str, list[Point]]] = {}
    for host, node_rank, folder in node_folders(round_folder):
        ahead = clock_offset(folder)
        for title, points in curves(folder, result.monitors.get("nodes", {}).get(folder.name, {})).items():
            curves_of.setdefault(title, {})[f"{host} · node rank {node_rank}"] = [[x - ahead, y] for x, y in points]
    zero = min([started, *(points[0][0] for series in curves_of.values() for points in series.values())])
    for title, series in curves_of.items():
        moved = {name: [[x - zero, y] for x, y in points] for name, points in series.items()}
        yield lines(title, time, title.rpartition(", ")[2], moved, zero=True)
