"""What belongs together in a submission to FlagPerf, and what it lacks, each hole with the command that fills it.

FlagPerf wants three scales: the throughput of each, and from one node with eight devices the accuracy and the time of
the whole training.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.parts.data_layout import DATA_DIR
from flagperf.contract.identity import Identity
from flagperf.contract.records import Change, Statistics, Summary
from flagperf.errors import ConfigError
from flagperf.report.files import is_job, read_jobs
from flagperf.results.summary import RATES, metric, usable, verdict

SCALES = ("1x1", "1x8", "2x8")
WHOLE = "1x8"  # the scale at which a case is trained to its end
BELOW = "\n           "  # next line of a part of an error


@dataclass(frozen=True)
class MeasuredJob:
    """A job and the folder it lies in."""

    folder: Path
    summary: Summary

    @property
    def config(self) -> Mapping[str, Any]:
        return self.summary.config

    @property
    def identity(self) -> Identity:
        return self.summary.identity

    @property
    def trained_to_its_end(self) -> bool:
        """Whether it says what the case reaches: a round ended at the target or at the case's own limits."""
        return any(result.target_reached is not None for result in usable(self.summary.results))

    def figure(self, name: str | None) -> Statistics | None:
        return self.summary.statistics.get(name or "")


@dataclass(frozen=True)
class Hole:
    """What a submission lacks, and the command that fills it."""

    what: str
    command: str


def jobs_in(folder: Path) -> list[MeasuredJob]:
    """The jobs of a run, or the one whose folder is given. Raises ConfigError where there is none."""
    run = folder.resolve().parent if is_job(folder) else folder
    return [MeasuredJob(run / summary.name, summary) for summary in read_jobs(folder)]


def submissions(jobs: Sequence[MeasuredJob]) -> list[list[MeasuredJob]]:
    """The jobs that belong together: those of one revision of a case, on one framework and product, by their scale."""
    found: dict[tuple[object, ...], list[MeasuredJob]] = {}
    for job in sorted(jobs, key=lambda job: (job.identity.nnodes, job.identity.nproc)):
        found.setdefault(job.identity.of_submission, []).append(job)
    return list(found.values())


def check(groups: Sequence[Sequence[MeasuredJob]]) -> None:
    """Refuse submissions with holes.

    Raises:
        ConfigError: it names every hole, and for each the command that fills it.
    """
    found = [hole for jobs in groups for hole in holes(jobs)]
    if found:
        raise ConfigError(
            "no submission yet: something is missing",
            given=BELOW.join(hole.what for hole in found),
            advice=BELOW.join(dict.fromkeys(hole.command for hole in found)),
        )


def holes(jobs: Sequence[MeasuredJob]) -> Iterator[Hole]:
    """What the jobs of one submission lack."""
    name = jobs[0].identity.on_product
    for scale in SCALES:
        here = [job for job in jobs if job.identity.scale == scale]
        good = [job for job in here if not unfit(job)]
        if not here:
            yield Hole(f"{name}: no job at {scale}", command(jobs[0], scale))
        elif not good:
            yield from (Hole(f"{job.summary.name}: {unfit(job)}", command(job, scale)) for job in here)
        elif scale == WHOLE and not any(job.trained_to_its_end and job.figure(metric(job.summary)) for job in good):
            yield from (Hole(f"{job.summary.name}: no accuracy, {_ended(job)}", command(job, scale)) for job in good)


def unfit(job: MeasuredJob) -> str:
    """Why a job is no part of any submission; "" where it is."""
    if (found := verdict(job.summary)) in ("INVALID", "RUNNING"):
        reasons = [reason for result in job.summary.results for reason in result.reasons]
        return ": ".join([found, *reasons[:1]])
    if job.identity.size != "full":
        return f"size={job.identity.size} is not the case"
    results = job.summary.results
    kinds = {
        "synthetic batches": any(result.synthetic for result in results),
        "sample data": any(result.sample_data for result in results),
        "other data than the case's": any(result.other_data for result in results),
    }
    if on := [kind for kind, is_so in kinds.items() if is_so]:
        return f"trained on {on[0]}"
    missing = [name for name in RATES if job.figure(name) is None]
    return f"no {', '.join(missing)}" if missing else ""


def _ended(job: MeasuredJob) -> str:
    reasons = {str(result.values.get("stop_reason")) for result in usable(job.summary.results)}
    return f"ended by {', '.join(sorted(reasons))}"


def command(job: MeasuredJob, scale: str) -> str:
    """The command for the case of a job at another scale, to its end."""
    config, identity, (nnodes, nproc) = job.config, job.identity, scale.split("x")
    sampled = any(result.sample_data for result in job.summary.results)
    precision = [change.after for change in job.summary.changes if _is_chosen(change, "precision")]
    unknown = sampled or config["data_dir"] in (None, "", DATA_DIR)
    words = {
        "model": identity.case,
        "framework": "" if identity.main_framework else identity.framework,
        "vendor": identity.vendor,
        "hardware": identity.hardware,
        "size": "full",  # which not every vendor's file chooses
        "nnodes": nnodes if nnodes != "1" else "",
        "nproc": nproc,
        "cluster": _cluster(config["cluster"], int(nnodes)),
        "precision": precision[0] if precision else "",
        "data_dir": "PATH" if unknown else config["data_dir"],
    }
    return shlex.join(["flagperf", *(f"{key}={value}" for key, value in words.items() if value)])


def _is_chosen(change: Change, key: str) -> bool:
    """Whether somebody chose the value: that of a tuning comes with the product, at each scale its own."""
    return change.key == key and not change.source.startswith("tuning ")


def _cluster(cluster: Mapping[str, Any], nnodes: int) -> str:
    """The cluster of the job, where it has so many hosts; else NAME, for the user to say."""
    if nnodes > max(1, len(cluster.get("nodes") or ())):
        return "NAME"
    name = str(cluster.get("name", "local"))
    return "" if name == "local" else name
