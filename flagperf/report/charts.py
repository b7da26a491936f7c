"""The plots of a job: loss, metric, throughput and step time of its rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.perflog import Event
from flagperf.contract.records import Result, Summary
from flagperf.report.cells import condition, number
from flagperf.report.plots import Chart, Point, dots, lines
from flagperf.report.tables import PERCENTILES, figure_units
from flagperf.report.tables import value as shown
from flagperf.results.rank_log import first_rank_log
from flagperf.results.restarts import Chains
from flagperf.results.summary import usable

Logs = Mapping[int, Sequence[Event]]  # round → events of its first rank


def read_logs(job_folder: Path, summary: Summary) -> Logs:
    """Round → events of its first rank. Rounds without a log are left out."""
    logs = {result.round: first_rank_log(job_folder / f"round{result.round}") for result in summary.results}
    return {number: log.events for number, log in logs.items() if log and log.events}


def earlier_logs(earlier: Chains) -> Logs:
    """Round → events of the runs that this round resumed, up to the resumed step."""
    return {number: [event for each in rounds for event in each.kept] for number, rounds in earlier.items()}


def job_charts(summary: Summary, logs: Logs, earlier: Logs) -> list[Chart]:
    """All charts of a job over its rounds that have data. `earlier`: of the runs that its rounds resumed."""
    return [chart for chart in (*_curves(summary, logs, earlier), _percentiles(summary), _spread(summary)) if chart]


def values(events: Sequence[Event], event: str, y: str, factor: float = 1.0) -> list[Point]:
    """Points [step, figure times factor] of all events of a kind."""
    points = [(entry.value.get("step"), entry.value.get(y)) for entry in events if entry.event == event]
    return [[a, b * factor] for a, b in points if a is not None and b is not None]


def losses(events: Sequence[Event]) -> list[Point]:
    """Points [step, loss]. The loss that was first not finite stands at its own step, which need not be logged."""
    points = values(events, "STEP_END", "loss")
    lost = [entry.value["diverged_step"] for entry in events if "diverged_step" in entry.value]
    first = next((number for number, (_, loss) in enumerate(points) if not math.isfinite(loss)), len(points))
    if lost and first < len(points):
        points[first] = [lost[-1], points[first][1]]
    return points


def metric_of(summary: Summary) -> tuple[str, str, list[dict[str, object]]] | None:
    """The metric of a job's target: its name, the label of its axis, and a mark at the target."""
    target = summary.results[0].target if summary.results else None
    if target is None:
        return None
    axis = f"{target.metric} [{target.unit}]" if target.unit else target.metric
    return target.metric, axis, [{"at": target.value, "label": f"target {condition(target)}"}]


def _curves(summary: Summary, logs: Logs, earlier: Logs) -> Iterator[Chart]:
    def chart(title: str, y: str, event: str, name: str, factor: float = 1.0, **more: Any) -> Chart:
        def points(events: Sequence[Event]) -> list[Point]:
            return losses(events) if name == "loss" else values(events, event, name, factor)

        series, before = (
            {f"round {number}": points(events) for number, events in of_rounds.items()} for of_rounds in (logs, earlier)
        )
        return lines(title, "step", y, series, earlier=before, **more)

    warm_up: dict[str, Any] = {} if earlier else _warm_up(summary)
    yield chart("Loss", "loss", "STEP_END", "loss", zero=True)
    if metric := metric_of(summary):
        name, axis, marks = metric
        yield chart("Metric of the evaluations", axis, "EVALUATE", name, marks=marks, dots=True)
    unit = summary.identity.throughput_unit
    yield chart("Throughput of the job", unit, "STEP_END", "throughput", zero=True, **warm_up)
    yield chart("Step time", "ms, mean between two log lines", "STEP_END", "step_time", 1000, zero=True, **warm_up)


def _warm_up(summary: Summary) -> dict[str, object]:
    """The steps that the steady throughput and the percentiles leave out."""
    steps = next((steps for result in summary.results if (steps := result.values.get("warmup_steps"))), None)
    return {"shade": {"to": steps, "label": "warm-up"}} if steps else {}


def _percentiles(summary: Summary) -> Chart:
    """Percentiles of the step time of each round's slowest rank, over all steps after the warm-up."""

    def of(result: Result) -> dict[int, tuple[float, str]]:
        percentiles = {index: result.values.get(f"step_time_{name}") for index, name in enumerate(PERCENTILES)}
        return {
            index: (1000 * seconds, f"{PERCENTILES[index]} {number(1000 * seconds)} ms")
            for index, seconds in percentiles.items()
            if seconds is not None and math.isfinite(seconds)
        }

    rows = {f"round {result.round}": of(result) for result in usable(summary.results)}
    return dots("Percentiles of the step time", "ms, over all steps after the warm-up", PERCENTILES, rows)


def _spread(summary: Summary) -> Chart:
    """Each figure of each round as the deviation from its mean."""
    units, rounds = figure_units(summary), usable(summary.results)
    rows = {
        name: {
            index: (
                100 * (value / figure.mean - 1),
                f"round {result.round}: {shown(name, value)} {units.get(name, '')}".rstrip(),
            )
            for index, result in enumerate(rounds)
            if (value := result.values.get(name)) is not None
        }
        for name, figure in summary.statistics.items()
        if figure.stdev and figure.mean
    }
    names = [f"round {result.round}" for result in rounds]
    return dots("Rounds against their mean", "% from the mean", names, rows, centre=True)
