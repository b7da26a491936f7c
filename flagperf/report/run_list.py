"""The runs of a result folder as an HTML file, on the frame of report.html."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from flagperf.report.page import bound, grid, render
from flagperf.report.runs import Listed

REPORT = "report.html"


def page(folder: Path, jobs: Sequence[Listed], beside: Path) -> str:
    """The text of the page.

    Args:
        folder: with the runs.
        jobs: of the runs, in their order on the page.
        beside: the folder of the page. Links to reports are relative to it.
    """
    return render(
        "run_list.html.j2",
        {},
        name=folder.resolve().name,
        runs=len({job.run for job in jobs}),
        jobs=grid([_row(job) for job in jobs]),
        links=[_link(folder / job.run / REPORT, beside) for job in jobs],
    )


def _row(job: Listed) -> dict[str, str]:
    return {
        "run": job.run,
        "date": f"{datetime.fromtimestamp(job.began):%Y-%m-%d %H:%M}",
        "case": job.case,
        "vendor": job.vendor,
        "hardware": job.hardware,
        "scale": job.scale,
        "precision": job.precision,
        "verdict": job.verdict,
        "p_train": bound(job.p_train),
        "job": job.job,
        "notes": job.note,
    }


def _link(report: Path, beside: Path) -> str:
    """The address of a report, relative to the page; "" where the run has no report."""
    return quote(Path(os.path.relpath(report.absolute(), beside)).as_posix()) if report.is_file() else ""
