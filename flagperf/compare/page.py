"""Comparisons as an HTML file with the frame and the plots of report.html: jobs side by side, then each pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.compare import render, side_by_side
from flagperf.compare.align import Alignment
from flagperf.compare.gate import Decision
from flagperf.compare.jobs import NamedJob
from flagperf.compare.values import Comparison
from flagperf.report.page import grid
from flagperf.report.page import render as render_page
from flagperf.report.plots import Chart, Point, lines, thin
from flagperf.report.run_charts import job_names
from flagperf.report.scaling import NOTE as SCALING_NOTE
from flagperf.report.scaling import Groups, scaling_charts, scaling_rows

SCALING = "scaling"  # the element of its plots


@dataclass(frozen=True)
class Compared:
    """The content of a page."""

    pairs: Sequence[tuple[NamedJob, NamedJob]]
    comparisons: Sequence[Comparison]  # of the pairs
    alignments: Sequence[Alignment]
    decisions: Sequence[Decision]
    alone: Sequence[str]  # jobs without a partner
    scales: Groups
    margin: float


def page(compared: Compared) -> str:
    """The text of the page. It depends on the comparisons alone, not on time or host."""
    names = _short_names([job for pair in compared.pairs for job in pair])
    bases = {base.name: base for base, _ in compared.pairs}.values()
    charts = {
        str(number): _charts(comparison, compared.alignments) for number, comparison in enumerate(compared.comparisons)
    }
    return render_page(
        "compare.html.j2",
        {SCALING: scaling_charts(compared.scales), **charts},
        folder=Path(__file__).parent,
        runs=", ".join(dict.fromkeys(Path(job.run).resolve().name for pair in compared.pairs for job in pair)),
        name=", ".join(dict.fromkeys(names[base.name] for base, _ in compared.pairs)),
        decisions=compared.decisions,
        alone=compared.alone,
        tables=[_side_by_side(base, compared.pairs, names) for base in bases],
        note=side_by_side.NOTE,
        scaling=grid(scaling_rows(compared.scales)),
        scaling_place=SCALING,
        scaling_note=SCALING_NOTE,
        pairs=[
            {"id": number, "charts": charts[str(number)], **_pair(comparison, names, compared.margin)}
            for number, comparison in enumerate(compared.comparisons)
        ],
    )


def _short_names(jobs: Sequence[NamedJob]) -> dict[str, str]:
    """Job → a short name.

    Jobs of several runs are named by their run, and by run and job where the run has several of the jobs. Jobs of a
    single run are named by the parts of their names that differ.
    """
    known = {job.name: job for job in jobs}
    runs = [Path(job.run).resolve() for job in known.values()]
    if len(set(runs)) == 1:
        names = job_names([job.summary for job in known.values()])
        return {job.name: render.marked(name, job.summary) for job, name in zip(known.values(), names, strict=True)}

    def name(job: NamedJob) -> str:
        run = Path(job.run).resolve()
        shown = run.name if len({short_name for short_name in runs if short_name.name == run.name}) == 1 else job.run
        return shown if runs.count(run) == 1 else f"{shown}/{job.summary.name}"

    return {key: render.marked(name(job), job.summary) for key, job in known.items()}


def _side_by_side(
    base: NamedJob, pairs: Sequence[tuple[NamedJob, NamedJob]], names: Mapping[str, str]
) -> dict[str, Any]:
    """The table of a base and all jobs that are compared with it."""
    jobs = [base, *(other for first, other in pairs if first.name == base.name)]
    case = base.summary.config.get("title") or base.summary.identity.case
    return {
        "title": f"{case}, against {names[base.name]}",
        "columns": [(names[job.name], *_machine(job)) for job in jobs],
        "lines": side_by_side.lines(jobs),
    }


def _machine(job: NamedJob) -> tuple[str, str]:
    identity = job.summary.identity
    return f"{identity.hardware} {identity.scale}", identity.precision


def _pair(comparison: Comparison, names: Mapping[str, str], margin: float) -> dict[str, Any]:
    return {
        "title": f"{names[comparison.other_name]} against {names[comparison.base_name]}",
        "figures": grid([dict(zip(render.HEADS, row, strict=True)) for row in render.rows(comparison)]),
        "note": render.note(comparison, margin),
        "differs": grid([dict(zip(render.DIFFERS, row, strict=True)) for row in comparison.differs], text=True),
    }


def _charts(comparison: Comparison, alignments: Sequence[Alignment]) -> list[Chart]:
    pair = comparison.base_name, comparison.other_name
    of_pair = [alignment for alignment in alignments if (alignment.base_name, alignment.other_name) == pair]
    return [chart for alignment in of_pair for chart in alignment_charts(alignment) if chart]


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
