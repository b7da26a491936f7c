"""Speed-up and efficiency of the scales of a case, against its smallest scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flagperf.contract.records import Summary
from flagperf.report import cells
from flagperf.report.plots import Chart, Point, lines
from flagperf.results.summary import verdict

RATE = "p_train"  # the figure that is compared with that of the smallest scale
NOTES = "notes"
NOTE = (
    f"Speed-up: {RATE}, the arithmetic mean over the rounds, over that of the smallest scale. "
    "Efficiency: speed-up over the growth in devices."
)


@dataclass(frozen=True)
class Scale:
    """A job, against the smallest scale of its case."""

    job: Summary
    growth: float  # in devices
    speed_up: float

    @property
    def efficiency(self) -> float:
        """Speed-up divided by the growth of the number of devices."""
        return self.speed_up / self.growth


Groups = Mapping[str, Sequence[Scale]]  # name of a case → its scales, the smallest first


def scales(summaries: Iterable[Summary]) -> dict[str, list[Scale]]:
    """The cases with several scales."""
    groups: dict[tuple[str, ...], list[Summary]] = {}
    for summary in summaries:
        if RATE in summary.statistics:
            groups.setdefault(_alike(summary), []).append(summary)
    scaled = {identity: jobs for identity, jobs in groups.items() if len({job.identity.devices for job in jobs}) > 1}
    return {cells.apart(identity, scaled): _held_together(jobs) for identity, jobs in scaled.items()}


def scaling_rows(groups: Groups) -> list[dict[str, str]]:
    """A row for each job, with a column of notes where a job has notes."""
    rows = [{"case": name, **_row(scale)} for name, group in groups.items() for scale in group]
    noted = any(row[NOTES] != cells.ABSENT for row in rows)
    return rows if noted else [{name: text for name, text in row.items() if name != NOTES} for row in rows]


def scaling_charts(groups: Groups) -> list[Chart]:
    """Speed-up and efficiency over the growth in devices, with a curve for each case."""
    if not groups:
        return []
    growths = sorted({scale.growth for group in groups.values() for scale in group})
    speed_ups: dict[str, list[Point]] = {
        name: [[scale.growth, scale.speed_up] for scale in group] for name, group in groups.items()
    }
    shares: dict[str, list[Point]] = {
        name: [[scale.growth, 100 * scale.efficiency] for scale in group] for name, group in groups.items()
    }
    x, labels = "devices, over those of the smallest scale", [[growth, f"×{growth:g}"] for growth in growths]
    more: dict[str, Any] = {"zero": True, "dots": True, "labels": labels}
    y, ideal, full = f"{RATE}, over that of the smallest", [1.0, growths[-1]], [{"at": 100.0, "label": ""}]
    return [
        lines("Speed-up", x, y, speed_ups, ideal=ideal, **more),
        lines("Efficiency", x, "% of the ideal speed-up", shares, marks=full, **more),
    ]


def _held_together(jobs: Iterable[Summary]) -> list[Scale]:
    ordered = sorted(jobs, key=lambda job: (job.identity.devices, job.identity.nnodes))
    least = ordered[0]
    devices, rate = least.identity.devices, least.statistics[RATE].mean
    return [Scale(job, job.identity.devices / devices, job.statistics[RATE].mean / rate) for job in ordered]


def _row(scale: Scale) -> dict[str, str]:
    job, identity = scale.job, scale.job.identity
    return {
        "scale": identity.scale,
        "devices": str(identity.devices),
        "batch a device": str(identity.train_batch_size or cells.ABSENT),
        RATE: cells.spread(job.statistics[RATE]),
        "unit": identity.throughput_unit,
        "speed-up": f"{scale.speed_up:.2f}",
        "efficiency": cells.percent(scale.efficiency),
        "verdict": verdict(job),
        NOTES: "; ".join(dict.fromkeys(note for result in job.results for note in result.notes)) or cells.ABSENT,
    }


def _alike(summary: Summary) -> tuple[str, ...]:
    """The values that jobs of a group have in common: case, product, precision, and the values of a sweep."""
    identity = summary.identity
    swept = summary.results[0].sweep if summary.results else {}
    of_sweep = (f"{key}={value}" for key, value in sorted(swept.items()))
    return cells.case(identity), identity.hardware, identity.precision, *of_sweep
