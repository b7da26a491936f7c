"""Runs that were recorded once, with real logs, as this version of flagperf would have left them."""

from __future__ import annotations

import shutil
from pathlib import Path

from flagperf import report
from flagperf.results import result, summary

RUNS = Path(__file__).parent / "data" / "runs"


def recorded_run(folder: Path, name: str = "two-rounds") -> Path:
    """A copy of a recorded run below `folder`, its results made anew of its logs."""
    run = folder / name
    shutil.copytree(RUNS / name, run)
    for path in run.rglob("result.json"):
        path.unlink()
    for job in report.read_run(run):
        for found in job.results:
            result.write(found, run / job.name / f"round{found.round}")
    for job in report.read_run(run):
        summary.write(job, run / job.name)
    return run
