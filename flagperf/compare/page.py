"""Comparisons as one HTML file, on the frame and with the plots of report.html: jobs side by side, then each pair."""

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

SCALING = "scaling"  # where its plots stand


@dataclass(frozen=True)
class Compared:
    """All that a page shows."""

    pairs: Sequence[tuple[NamedJob, NamedJob]]
    comparisons: Sequence[Comparison]  # of the pairs
    alignments: Sequence[Alignment]
    decisions: Sequence[Decision]
    alone: Sequence[str]  # jobs without a partner
    scales: Groups
    margin: float


def page(found: Compared) -> str:
    """The whole page. The same comparisons give the same text, to the byte."""
    names = _short_names([job for pair in found.pairs for job in pair])
    charts = {str(number): _charts(one, found.alignments) for number, one in enumerate(found.comparisons)}
    return render_page(
        "compare.html.j2",
        {SCALING: scaling_charts(found.scales), **charts},
        folder=Path(__file__).parent,
        runs=", ".join(dict.fromkeys(Path(job.run).resolve().name for pair in found.pairs for job in pair)),
        name=", ".join(dict.fromkeys(names[base.name] for base, _ in found.pairs)),
        decisions=found.decisions,
        alone=found.alone,
        tables=[
            _side_by_side(base, found.pairs, names) for base in {base.name: base for base, _ in found.pairs}.values()
        ],
        note=side_by_side.NOTE,
        scaling=grid(scaling_rows(found.scales)),
        scaling_place=SCALING,
        scaling_note=SCALING_NOTE,
        pairs=[
            {"id": number, "charts": charts[str(number)], **_pair(one, names, found.margin)}
            for number, one in enumerate(found.comparisons)
        ],
    )


def _short_names(jobs: Sequence[NamedJob]) -> dict[str, str]:
    """Job → the name of its run, or, where a run has several of the jobs, the job's own behind it; of one run alone,
    what tells the job from the others."""
    known = {job.name: job for job in jobs}
    runs = [Path(job.run).resolve() for job in known.values()]
    if len(set(runs)) == 1:
        short = job_names([job.summary for job in known.values()])
        return {key: render.marked(one, job.summary) for (key, job), one in zip(known.items(), short, strict=True)}

    def name(job: NamedJob) -> str:
        run = Path(job.run).resolve()
        shown = run.name if len({one for one in runs if one.name == run.name}) == 1 else job.run
        return shown if runs.count(run) == 1 else f"{shown}/{job.summary.name}"

    return {key: render.marked(name(job), job.summary) for key, job in known.items()}


def _side_by_side(
    base: NamedJob, pairs: Sequence[tuple[NamedJob, NamedJob]], names: Mapping[str, str]
) -> dict[str, Any]:
    """A job and all that are held against it."""
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
    mine = [one for one in alignments if (one.base_name, one.other_name) == pair]
    return [chart for one in mine for chart in alignment_charts(one) if chart]


def alignment_charts(found: Alignment) -> list[Chart]:
    """Both losses with the band around the reference, and how far the other is off at each step."""
    reference = _points(found.reference)
    percent, errors = 100 * found.share, {step: 100 * found.error(step) for step in found.steps}
    band = [[x, y - abs(y) * found.share, y + abs(y) * found.share] for x, y in thin(reference)]
    curves = {"reference": reference, "other": _points(found.other)}
    marks = [{"at": percent, "label": f"{percent:g} %"}]
    return [
        lines(f"Loss, seed {found.seed}: band of {percent:g} %", "step", "loss", curves, band=band),
        lines(f"Error of the loss, seed {found.seed}", "step", "%", {"error": _points(errors)}, marks=marks, zero=True),
    ]


def _points(values: Mapping[int, float]) -> list[Point]:
    return [[step, value] for step, value in sorted(values.items()) if math.isfinite(value)]
