"""Comparisons as an HTML file with the frame and the plots of report.html: jobs side by side, then each pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flagperf.compare import render, side_by_side
from flagperf.compare.align import Alignment
from flagperf.compare.gate import Decision
from flagperf.compare.jobs import NamedJob
from flagperf.compare.likeness import NAMED, NOT_SET
from flagperf.compare.values import Comparison
from flagperf.report.charts import read_logs
from flagperf.report.page import bound, grid
from flagperf.report.page import render as render_page
from flagperf.report.plots import Chart, Point, lines, thin
from flagperf.report.run_charts import job_names, overlay
from flagperf.report.scaling import NOTE as SCALING_NOTE
from flagperf.report.scaling import Groups, scaling_charts, scaling_rows
from flagperf.results.summary import verdict

SCALING = "scaling"  # the element of its plots
MOST_SETTINGS = 6  # differing settings in the head of a column; "What differs" lists all


@dataclass(frozen=True)
class Compared:
    """The content of a page."""

    pairs: Sequence[tuple[NamedJob, NamedJob]]
    comparisons: Sequence[Comparison]  # of the pairs
    alignments: Sequence[Alignment]
    decisions: Sequence[Decision]
    unpaired: Sequence[str]  # jobs without a partner
    scales: Groups
    margin: float


def page(compared: Compared) -> str:
    """The text of the page. It depends on the comparisons and on the logs of the jobs alone, not on time or host."""
    names = short_names([job for pair in compared.pairs for job in pair])
    bases = {base.name: base for base, _ in compared.pairs}.values()
    charts = {str(number): _charts(comparison, compared) for number, comparison in enumerate(compared.comparisons)}
    curves = {f"curves of {base.name}": _curves(_beside(base, compared.pairs), names) for base in bases}
    return render_page(
        "compare.html.j2",
        {SCALING: scaling_charts(compared.scales), **charts, **curves},
        folder=Path(__file__).parent,
        runs=", ".join(dict.fromkeys(Path(job.run).resolve().name for pair in compared.pairs for job in pair)),
        name=", ".join(dict.fromkeys(names[base.name] for base, _ in compared.pairs)),
        decisions=compared.decisions,
        unpaired=compared.unpaired,
        tables=[
            _side_by_side(_beside(base, compared.pairs), compared.comparisons, names)
            | {"place": f"curves of {base.name}", "curves": curves[f"curves of {base.name}"]}
            for base in bases
        ],
        note=side_by_side.NOTE,
        scaling=grid(scaling_rows(compared.scales)),
        scaling_place=SCALING,
        scaling_note=SCALING_NOTE,
        pairs=[
            {"id": number, "charts": charts[str(number)], **_pair(comparison, names, compared.margin)}
            for number, comparison in enumerate(compared.comparisons)
        ],
    )


def short_names(jobs: Sequence[NamedJob]) -> dict[str, str]:
    """Job → a short name.

    Jobs of several runs are named by their run, and by run and job where the run has several of the jobs. Jobs of a
    single run are named by the parts of their names that differ.
    """
    known = {job.name: job for job in jobs}
    runs = [Path(job.run).resolve() for job in known.values()]
    if len(set(runs)) == 1:
        return dict(zip(known, job_names([job.summary for job in known.values()]), strict=True))

    def name(job: NamedJob) -> str:
        run = Path(job.run).resolve()
        shown = run.name if len({short_name for short_name in runs if short_name.name == run.name}) == 1 else job.run
        return shown if runs.count(run) == 1 else f"{shown}/{job.summary.name}"

    return {key: name(job) for key, job in known.items()}


def _beside(base: NamedJob, pairs: Sequence[tuple[NamedJob, NamedJob]]) -> list[NamedJob]:
    """A base and all jobs that are compared with it."""
    return [base, *(other for first, other in pairs if first.name == base.name)]


def _side_by_side(
    jobs: Sequence[NamedJob], comparisons: Sequence[Comparison], names: Mapping[str, str]
) -> dict[str, Any]:
    """The table of a base and all jobs that are compared with it."""
    base, settings = jobs[0], differing_settings(jobs, comparisons)
    case = base.summary.config.get("title") or base.summary.identity.case
    return {
        "title": f"{case}, against {names[base.name]}",
        "columns": [
            {
                "name": names[job.name],
                "verdict": verdict(job.summary),
                "lines": [*_machine(job), *(f"{key}: {values[job.name]}" for key, values in settings.items())],
            }
            for job in jobs
        ],
        "lines": [replace(line, cells=tuple(map(_bound, line.cells))) for line in side_by_side.lines(jobs)],
    }


def _bound(cell: side_by_side.Cell) -> side_by_side.Cell:
    return replace(cell, text=bound(cell.text))


def differing_settings(jobs: Sequence[NamedJob], comparisons: Sequence[Comparison]) -> dict[str, dict[str, str]]:
    """Setting in which jobs differ from the first → job → value. The first few.

    Versions and scale are no settings, and each head has the precision.
    """
    base = jobs[0].name
    rows = [
        (comparison.other_name, *row)
        for comparison in comparisons
        if comparison.base_name == base
        for row in comparison.differs
        if row[0] not in (*NAMED, "precision") and not row[0].startswith(NOT_SET)
    ]
    settings: dict[str, dict[str, str]] = {}
    for other, key, of_base, of_other in rows:
        settings.setdefault(key, {job.name: of_base for job in jobs})[other] = of_other
    return dict(itertools.islice(settings.items(), MOST_SETTINGS))


def _curves(jobs: Sequence[NamedJob], names: Mapping[str, str]) -> list[Chart]:
    """Loss and metric of all jobs over each other."""
    logs = [(job.summary, read_logs(Path(job.name), job.summary)) for job in jobs]
    shown = {names[job.name]: log for job, log in zip(jobs, logs, strict=True) if log[1]}
    return [chart for chart in overlay(shown) if chart] if shown else []


def _machine(job: NamedJob) -> tuple[str, str]:
    identity = job.summary.identity
    return f"{identity.hardware} {identity.scale}", identity.precision


def _pair(comparison: Comparison, names: Mapping[str, str], margin: float) -> dict[str, Any]:
    return {
        "title": " against ".join(render.marked(names[name], job) for name, job in reversed(comparison.sides)),
        "figures": grid(render.known_rows(comparison)),
        "note": render.note(comparison, margin),
        "differs": grid([dict(zip(render.DIFFERS, row, strict=True)) for row in comparison.differs], text=True),
    }


def _charts(comparison: Comparison, compared: Compared) -> list[Chart]:
    pair = comparison.base_name, comparison.other_name
    of_pair = [alignment for alignment in compared.alignments if (alignment.base_name, alignment.other_name) == pair]
    charts = [intervals(comparison, compared.margin), *(chart for each in of_pair for chart in alignment_charts(each))]
    return [chart for chart in charts if chart]


def intervals(comparison: Comparison, margin: float) -> Chart:
    """The change of each figure with its confidence interval, in % of the base; {} where no interval is known."""
    rows = [
        {
            "name": figure.name,
            "word": figure.word,
            "at": _change(figure.estimate.ratio),
            "low": _change(figure.estimate.low),
            "high": _change(figure.estimate.high),
        }
        for figure in comparison.figures
        if figure.estimate.low is not None and figure.estimate.high is not None
    ]
    if not rows:
        return {}
    title = "Change of each figure, with its 95 % interval"
    return {"kind": "intervals", "title": title, "x": "% against the base", "margin": 100 * margin, "rows": rows}


def _change(ratio: float | None) -> float:
    return round(100 * ((ratio or 0.0) - 1), 4)


def alignment_charts(alignment: Alignment) -> list[Chart]:
    """Two plots: both losses with the band around the reference, and the error of the loss at each step."""
    reference = _points(alignment.reference)
    percent, errors = 100 * alignment.share, {step: 100 * alignment.error(step) for step in alignment.steps}
    band = [[x, y - abs(y) * alignment.share, y + abs(y) * alignment.share] for x, y in thin(reference)]
    curves = {"reference": reference, "other": _points(alignment.other)}
    marks = [{"at": percent, "label": f"{percent:g} %"}]
    title, error = f"Error of the loss, seed {alignment.seed}", {"error": _points(errors)}
    return [
        lines(f"Loss, seed {alignment.seed}: band of {percent:g} %", "step", "loss", curves, band=band),
        lines(title, "step", "%", error, marks=marks, zero=True),
    ]


def _points(values: Mapping[int, float]) -> list[Point]:
    return [[step, value] for step, value in sorted(values.items()) if math.isfinite(value)]
