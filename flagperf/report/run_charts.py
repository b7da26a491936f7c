"""The plots of a run: the curves of all jobs of a case in one plot, and figures over the values of a sweep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flagperf.contract.records import Summary
from flagperf.report import cells
from flagperf.report.charts import Logs, losses, metric_of, values
from flagperf.report.plots import Chart, Point, lines
from flagperf.results.summary import metric, usable

RATE = "p_train"  # the throughput that is drawn over the values of a sweep

Jobs = Sequence[tuple[Summary, Logs]]


def overlays(jobs: Jobs) -> list[Chart]:
    """Loss and metric of each case with several jobs. Each job has a curve: its first round that counts."""
    groups = [group for group in _by_case(jobs) if len(group) > 1]
    named = [dict(zip(job_names([job for job, _ in group]), group, strict=True)) for group in groups]
    return [chart for group in named for chart in overlay(group) if chart]


def _by_case(jobs: Jobs) -> list[Jobs]:
    groups: dict[str, list[tuple[Summary, Logs]]] = {}
    for summary, logs in jobs:
        if logs:
            groups.setdefault(cells.case(summary.identity), []).append((summary, logs))
    return list(groups.values())


def overlay(group: Mapping[str, tuple[Summary, Logs]]) -> Iterator[Chart]:
    """Loss and metric of jobs of a case. `group`: name of a curve → job and its logs, which are not empty."""
    first = next(iter(group.values()))[0]

    def series(event: str, figure: str) -> dict[str, list[Point]]:
        return {name: values(logs[_round(summary, logs)], event, figure) for name, (summary, logs) in group.items()}

    case = cells.case(first.identity)
    of_jobs = {name: losses(logs[_round(summary, logs)]) for name, (summary, logs) in group.items()}
    yield lines(f"{case}: loss of each job", "step", "loss", of_jobs, zero=True, named=True)
    if target_axis := metric_of(first):
        name, axis, marks = target_axis
        title = f"{case}: metric of each job"
        yield lines(title, "step", axis, series("EVALUATE", name), marks=marks, dots=True, named=True)


def _round(summary: Summary, logs: Logs) -> int:
    return next((result.round for result in usable(summary.results) if result.round in logs), next(iter(logs)))


def job_names(summaries: Sequence[Summary]) -> list[str]:
    """Short names of jobs: the parts of each folder's name that not all names have. A single job has its whole name."""
    if len(summaries) == 1:
        return [summaries[0].name]
    names = [_parts(summary.name) for summary in summaries]
    common = set.intersection(*map(set, names))
    return [" ".join(part for part in parts if part not in common) or "-".join(parts) for parts in names]


def _parts(name: str) -> list[str]:
    job, *swept = name.split(",")
    return [*job.split("-"), *swept]


def sweep_charts(summaries: Sequence[Summary]) -> list[Chart]:
    """Throughput and final metric over the values of each swept key. Each choice of the other keys has a curve."""
    cases: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        cases.setdefault((cells.case(summary.identity), summary.identity.throughput_unit), []).append(summary)
    several = len(cases) > 1
    return [
        chart
        for (case, unit), jobs in cases.items()
        for key in cells.sweep_keys(jobs)
        for chart in _over(key, jobs, f"{case}: " if several else "", unit)
        if chart
    ]


def _over(key: str, jobs: Sequence[Summary], case: str, unit: str) -> Iterator[Chart]:
    swept = {job.name: job.results[0].sweep for job in jobs if job.results and key in job.results[0].sweep}
    selected = [job for job in jobs if job.name in swept]
    ordered = _ordered({swept[job.name][key] for job in selected})
    if len(ordered) < 2:
        return
    scales = {cells.config(job.identity) for job in selected}
    axes = {RATE: unit}
    if (name := metric(selected[0])) and (target_axis := metric_of(selected[0])):
        axes[name] = target_axis[1]
    for figure, axis in axes.items():
        series: dict[str, list[Point]] = {}
        for job in selected:
            if figure in job.statistics:
                point = [float(ordered.index(swept[job.name][key])), job.statistics[figure].mean]
                scale = [cells.config(job.identity)] if len(scales) > 1 else []
                series.setdefault(", ".join([*scale, *_others(swept[job.name], key)]) or figure, []).append(point)
        curves = {name: sorted(points) for name, points in series.items()}
        labels = [[index, value] for index, value in enumerate(ordered)]
        yield lines(f"{case}{figure} over {key}", key, axis, curves, zero=True, labels=labels, dots=True)


def _others(swept: Mapping[str, str], key: str) -> list[str]:
    return [f"{name}={value}" for name, value in swept.items() if name != key]


def _ordered(values: Iterable[str]) -> list[str]:
    """The values sorted: numbers by size, then texts by the alphabet."""

    def sort_key(value: str) -> tuple[bool, float, str]:
        number = float(value) if re.fullmatch(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", value, re.IGNORECASE) else None
        return number is None, number or 0.0, value

    return sorted(values, key=sort_key)
