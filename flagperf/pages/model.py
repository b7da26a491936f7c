"""The page of a model: what it is, its data, and on which frameworks and vendors' products it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flagperf.config.about_case import AboutCase, about_case, target_text
from flagperf.config.search_path import options, search_path
from flagperf.config.values import RunConfig
from flagperf.pages.case_text import case_text
from flagperf.pages.render import render
from flagperf.report.submission import Job, unfit

NONE = "/"


def model_page(run: RunConfig, jobs: Sequence[Job], config_dirs: Sequence[Path] = ()) -> str:
    """The page, in Markdown.

    Args:
        run: the case as it is configured at its full size.
        jobs: what was measured; those of other cases are left out.
    """
    mine = [job for job in jobs if job.config["case"] == run.case and not unfit(job)]
    abouts = [_about(run.case, name, config_dirs) for name in _frameworks(run, config_dirs)]
    vendors = options("vendor", search_path(config_dirs))
    return render(
        "model.md.j2",
        run=run,
        text=case_text(run.case),
        target=target_text(run.config.get("target")),
        support=[
            {"厂商": vendor, **{one.framework: _support(vendor, one, mine) for one in abouts}} for vendor in vendors
        ],
    )


def _frameworks(run: RunConfig, config_dirs: Sequence[Path]) -> Sequence[str]:
    return about_case(run.case, (), config_dirs).frameworks


def _about(case: str, framework: str, config_dirs: Sequence[Path]) -> AboutCase:
    return about_case(case, [f"framework={framework}"], config_dirs)


def _support(vendor: str, about: AboutCase, jobs: Sequence[Job]) -> str:
    """What was measured on a vendor's products, and for which of them there are tunings."""
    names = [
        f"{job.config['hardware']['name']}x{job.scale}"
        for job in jobs
        if (job.config["vendor"]["name"], job.config["framework"]["name"]) == (vendor, about.framework)
    ]
    parts = {"已测量": dict.fromkeys(names), "有配置": about.tunings.get(vendor, ())}
    return "；".join(f"{what} {', '.join(found)}" for what, found in parts.items() if found) or NONE
