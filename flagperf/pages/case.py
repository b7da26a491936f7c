"""The page of a case on one vendor's product: how to run it there, and its results at FlagPerf's three scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flagperf.config.about_case import target_text
from flagperf.config.platform import Image
from flagperf.config.search_path import VENDORS
from flagperf.config.values import RunConfig
from flagperf.pages.render import image_text, render
from flagperf.report import submission
from flagperf.report.flagperf_readme import fragment
from flagperf.report.submission import SCALES, Hole, Job, unfit
from flagperf.results.summary import summary_of


@dataclass(frozen=True)
class Measured:
    """The jobs of one case on one product, and what they lack."""

    jobs: Sequence[Job]
    holes: Sequence[Hole]


def measured(run: RunConfig, jobs: Sequence[Job]) -> Measured:
    """Those jobs that are of the case, framework, vendor and product of a configured run, with the holes among them."""
    mine = [job for job in jobs if submission.belongs_to(job.config) == submission.belongs_to(run.config)]
    if mine:
        return Measured(mine, list(submission.holes(mine)))
    name = run.name.removesuffix(f"x{run.scale}")
    return Measured((), [Hole(f"{name}: no job at {scale}", line) for scale, line in _commands(run).items()])


def _commands(run: RunConfig) -> dict[str, str]:
    """Scale → the command that measures the case there."""
    unmeasured = Job(Path(), summary_of(run.name, (), run.config, run.changes))
    return {scale: submission.command(unmeasured, scale) for scale in SCALES}


def case_page(run: RunConfig, jobs: Sequence[Job], _: Sequence[Path] = ()) -> str:
    """The page, in Markdown.

    Args:
        run: the case as it is configured for the vendor's product.
        jobs: what was measured; those of other cases and products are left out.
    """
    found = measured(run, jobs)
    return render(
        "case.md.j2",
        run=run,
        target=target_text(run.config.get("target")),
        image=_image(run.image) if run.image else "/",
        commands=_commands(run).values(),
        results=fragment(found.jobs).strip() if any(not unfit(job) for job in found.jobs) else "",
        holes=_rows(found.holes),
    )


def _image(image: Image) -> str:
    """Its name; of one that is built here, which only this machine knows by name, what it is built of."""
    if image.folder is None:
        return image.reference
    folder = image.folder.relative_to(VENDORS.parent) if image.folder.is_relative_to(VENDORS) else image.folder
    return image_text(image.source, str(folder))


def _rows(holes: Sequence[Hole]) -> list[dict[str, str]]:
    return [{"缺少": hole.what, "用此命令测量": f"`{hole.command}`"} for hole in holes]
