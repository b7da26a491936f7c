"""The page of a case on one vendor's product: how to run it there, and its results at FlagPerf's three scales."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def case_page(run: RunConfig, jobs: Sequence[Job], _: Sequence[Path] = ()) -> str:
    """The page, in Markdown.

    Args:
        run: the case as it is configured for the vendor's product.
        jobs: what was measured of it.
    """
    commands = _commands(run)
    name = run.name.removesuffix(f"x{run.scale}")
    unmeasured = [Hole(f"{name}: no job at {scale}", line) for scale, line in commands.items()]
    return render(
        "case.md.j2",
        run=run,
        target=target_text(run.config.get("target")),
        image=_image(run.image) if run.image else "/",
        commands=commands.values(),
        results=fragment(jobs).strip() if any(not unfit(job) for job in jobs) else "",
        holes=_rows(submission.holes(jobs) if jobs else unmeasured),
    )


def _commands(run: RunConfig) -> dict[str, str]:
    """Scale → the command that measures the case there."""
    unmeasured = Job(Path(), summary_of(run.name, (), run.config, run.changes))
    return {scale: submission.command(unmeasured, scale) for scale in SCALES}


def _image(image: Image) -> str:
    """Its name; of one that is built here, which only this machine knows by name, what it is built of."""
    if image.folder is None:
        return image.reference
    folder = image.folder.relative_to(VENDORS.parent) if image.folder.is_relative_to(VENDORS) else image.folder
    return image_text(image.source, str(folder))


def _rows(holes: Iterable[Hole]) -> list[dict[str, str]]:
    return [{"缺少": hole.what, "用此命令测量": f"`{hole.command}`"} for hole in holes]
