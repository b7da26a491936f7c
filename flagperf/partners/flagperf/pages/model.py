"""The page of a model: what it is, its data, and on which frameworks and vendors' products it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flagperf.config.about_case import frameworks, target_text
from flagperf.config.files.search_path import options, search_path
from flagperf.config.schema.values import RunConfig
from flagperf.partners.flagperf.pages.case_text import case_text
from flagperf.partners.flagperf.pages.render import render
from flagperf.partners.flagperf.submission import Job, unfit

NONE = "/"


def model_page(run: RunConfig, jobs: Sequence[Job], config_dirs: Sequence[Path] = ()) -> str:
    """The page, in Markdown.

    Args:
        run: the case as it is configured at its full size.
        jobs: what was measured of it.
    """
    folders = search_path(config_dirs)
    main, *others = frameworks(run.case, folders)
    cases = {main: run.case, **{name: f"{name}/{run.case}" for name in others}}
    mine = [job for job in jobs if not unfit(job)]
    return render(
        "model.md.j2",
        run=run,
        text=case_text(run.case),
        target=target_text(run.config.get("target")),
        support=[_row(vendor, cases, mine, folders) for vendor in options("vendor", folders)],
    )


def _row(vendor: str, cases: Mapping[str, str], jobs: Sequence[Job], folders: Sequence[Path]) -> dict[str, str]:
    """On each framework: what was measured on the vendor's products, and for which of them there are tunings.

    Args:
        cases: framework → the case's file for it.
    """
    row = {"厂商": vendor}
    for framework, case in cases.items():
        here = [
            job
            for job in jobs
            if (job.config["vendor"]["name"], job.config["framework"]["name"]) == (vendor, framework)
        ]
        names = dict.fromkeys(f"{job.config['hardware']['name']}x{job.scale}" for job in here)
        parts = {"已测量": names, "有配置": options(f"vendor/{vendor}/{case}", folders)}
        row[framework] = "；".join(f"{what} {', '.join(found)}" for what, found in parts.items() if found) or NONE
    return row
