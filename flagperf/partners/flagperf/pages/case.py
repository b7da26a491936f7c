"""The page of a case on a vendor's product: its commands, and its results at FlagPerf's three scales."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from flagperf.config.about_case import target_text
from flagperf.config.files.search_path import VENDORS
from flagperf.config.schema.platform import Image
from flagperf.config.schema.values import JobConfig
from flagperf.partners.flagperf import submission
from flagperf.partners.flagperf.pages.render import image_text, render
from flagperf.partners.flagperf.readme import fragment
from flagperf.partners.flagperf.submission import SCALES, Hole, MeasuredJob, unfit
from flagperf.results.summary import summary_of


def case_page(job: JobConfig, jobs: Sequence[MeasuredJob], config_dirs: Sequence[Path] = ()) -> str:
    """The page, in Markdown.

    Args:
        job: the case as it is configured for the vendor's product.
        jobs: its measured jobs.
        config_dirs: the user's folders, which the commands of the page name.
    """
    unmeasured = MeasuredJob(Path(), summary_of(job.name, (), job.config, job.changes))
    commands = {scale: submission.command(unmeasured, scale) for scale in SCALES}
    name = job.name.removesuffix(f"x{job.scale}")
    holes = submission.holes(jobs) if jobs else (Hole(f"{name}: no job at {at}", line) for at, line in commands.items())
    begin = shlex.join(["flagperf", *(word for folder in config_dirs for word in ("--config-dir", str(folder)))])
    return render(
        "case.md.j2",
        job=job,
        target=target_text(job.config.get("target")),
        image=_image(job.image) if job.image else "/",
        commands=[line.replace("flagperf", begin, 1) for line in commands.values()],
        results=fragment(jobs).strip() if any(not unfit(measured) for measured in jobs) else "",
        holes=[
            {"缺少": hole.description, "用此命令测量": f"`{hole.command.replace('flagperf', begin, 1)}`"}
            for hole in holes
        ],
    )


def _image(image: Image) -> str:
    """The name of an image, or the source of an image that this machine builds."""
    if image.folder is None:
        return image.reference
    folder = image.folder.relative_to(VENDORS.parent) if image.folder.is_relative_to(VENDORS) else image.folder
    return image_text(image.source, str(folder))
