"""Earlier rounds of the same job on the same machine. They show how much rounds vary."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from flagperf.compare.jobs import NamedJob
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError
from flagperf.results import summary as summaries
from flagperf.results.summary import usable

SAME_WORK = ("case", "revision", "size", "precision", "train_batch_size", "nnodes", "nproc")


def earlier_rounds(jobs: Iterable[NamedJob], folders: Collection[Path]) -> list[Summary]:
    """Further jobs in these result folders, with the name, work and machine of one of `jobs`.

    Figures are those of summary.json. Damaged summaries are left out.
    """
    compared = list(jobs)
    own_folders = {Path(job.name).resolve() for job in compared}
    names = {job.summary.name for job in compared}
    kinds = [_kind(job.summary) for job in compared]
    earlier = []
    for folder in sorted({folder.resolve() for folder in folders}):
        for path in sorted(path for name in names for path in folder.glob(f"*/{_literal(name)}/{summaries.FILE}")):
            if path.parent not in own_folders and (job := _read(path.parent)) and _kind(job) in kinds:
                earlier.append(job)
    return earlier


def _literal(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _read(job: Path) -> Summary | None:
    try:
        return summaries.read(job)
    except ConfigError:
        return None


def _kind(summary: Summary) -> tuple[Any, ...]:
    """The work and the machine of a job. Rounds vary alike where both are equal."""
    first = next(iter(usable(summary.results)), None)
    ranks = (first.values.get("ranks") or ()) if first else ()
    hosts = tuple(dict.fromkeys(str(rank.get("host")) for rank in ranks))
    work = tuple(str(summary.config.get(key)) for key in SAME_WORK)
    return work, hosts, first.values.get("device_name") if first else None
