"""The jobs of runs → the scales of their cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flagperf.compare.jobs import NamedJob
from flagperf.report.scaling import Scale, scales


def scales_of(runs: Sequence[Sequence[NamedJob]]) -> dict[str, list[Scale]]:
    """Case → its scales: of each run with several scales, or of all runs together where no run has several."""
    several = {run[0].run: groups for run in runs if (groups := scales(job.summary for job in run))}
    if not several:
        return scales(job.summary for run in runs for job in run)
    return {
        case if len(several) == 1 else f"{Path(run).resolve().name}: {case}": group
        for run, groups in several.items()
        for case, group in groups.items()
    }
