"""The page of a model: description, data, and the frameworks and products that the model runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flagperf.config.about_case import frameworks, target_text
from flagperf.config.files.search_path import options, search_path
from flagperf.config.schema.values import JobConfig
from flagperf.partners.flagperf.pages.case_text import case_text
from flagperf.partners.flagperf.pages.render import render
from flagperf.partners.flagperf.submission import MeasuredJob, unfit

NONE = "/"


def model_page(job: JobConfig, jobs: Sequence[MeasuredJob], config_dirs: Sequence[Path] = ()) -> str:
    """The page, in Markdown.

    Args:
        job: the case as it is configured at its full size.
        jobs: its measured jobs.
        config_dirs: the user's folders.
    """
    folders = search_path(config_dirs)
    main, *others = frameworks(job.case, folders)
    cases = {main: job.case, **{name: f"{name}/{job.case}" for name in others}}
    fit = [measured for measured in jobs if not unfit(measured)]
    return render(
        "model.md.j2",
        job=job,
        text=case_text(job.case),
        target=target_text(job.config.get("target")),
        support=[_row(vendor, cases, fit, folders) for vendor in options("vendor", folders)],
    )


def _row(vendor: str, cases: Mapping[str, str], jobs: Sequence[MeasuredJob], folders: Sequence[Path]) -> dict[str, str]:
    """A vendor's cells: for each framework the measured products and scales, and those with tunings.

    Args:
        cases: framework → the case's file for it.
    """
    row = {"厂商": vendor}
    for framework, case in cases.items():
        own_jobs = [
            measured
            for measured in jobs
            if (measured.identity.vendor, measured.identity.framework) == (vendor, framework)
        ]
        scales = dict.fromkeys(f"{measured.identity.hardware}x{measured.identity.scale}" for measured in own_jobs)
        parts = {"已测量": scales, "有配置": options(f"vendor/{vendor}/{case}", folders)}
        row[framework] = "；".join(f"{label} {', '.join(names)}" for label, names in parts.items() if names) or NONE
    return row
