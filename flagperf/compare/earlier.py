"""Rounds of the same job on the same machine, of other runs: they tell how much rounds vary."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from flagperf.compare.jobs import NamedJob
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError
from flagperf.results import summary as summaries
from flagperf.results.summary import usable

SAME = ("case", "revision", "size", "precision", "train_batch_size", "nnodes", "nproc")


def earlier_rounds(jobs: Iterable[NamedJob], folders: Collection[Path]) -> list[Summary]:
    """The jobs of the runs in these result folders that are like one of `jobs` and not among them.

    Only a job of the same name is looked at: it says case, framework, hardware and scale. Its figures are those of
    summary.json; damaged ones are left out.
    """
    compared = list(jobs)
    mine = {Path(job.name).resolve() for job in compared}
    wanted = {job.summary.name for job in compared}
    kinds = [_kind(job.summary) for job in compared]
    found = []
    for folder in sorted({folder.resolve() for folder in folders}):
        for path in sorted(path for name in wanted for path in folder.glob(f"*/{_literal(name)}/{summaries.FILE}")):
            if path.parent not in mine and (job := _read(path.parent)) and _kind(job) in kinds:
                found.append(job)
    return found


def _literal(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _read(job: Path) -> Summary | None:
    try:
        return summaries.read(job)
    except ConfigError:
        return None


def _kind(summary: Summary) -> tuple[Any, ...]:
    """What must be equal for rounds to vary alike: the work and the machine."""
    first = next(iter(usable(summary.results)), None)
    ranks = (first.values.get("ranks") or ()) if first else ()
    hosts = tuple(dict.fromkeys(str(rank.get("host")) for rank in ranks))
    work = tuple(str(summary.config.get(key)) for key in SAME)
    return work, hosts, first.values.get("device_name") if first else None
