"""The jobs of a submission to FlagPerf, and its holes, each with the command that fills the hole.

FlagPerf asks for three scales: the throughput of each, and accuracy and time of a complete training on a node with
eight devices.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.files.search_path import CONF, family_of, find
from flagperf.config.parts.data_layout import DATA_DIR
from flagperf.contract.alignment import command as alignment_command
from flagperf.contract.digest import sha256_of
from flagperf.contract.identity import Identity
from flagperf.contract.records import Change, Statistics, Summary
from flagperf.errors import ConfigError
from flagperf.report.files import is_job, read_jobs
from flagperf.results.summary import RATES, metric, usable, verdict

SCALES = ("1x1", "1x8", "2x8")
FULL_TRAINING = "1x8"  # the scale of the complete training
BELOW = "\n           "  # the next line of a value in an error


@dataclass(frozen=True)
class MeasuredJob:
    """A job and its folder."""

    folder: Path
    summary: Summary

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the job, as config.yaml holds it."""
        return self.summary.config

    @property
    def identity(self) -> Identity:
        """Case, product, scale and precision of the job."""
        return self.summary.identity

    @property
    def trained_to_its_end(self) -> bool:
        """Whether a round ended at the target, or at the limits of the case."""
        return any(result.target_reached is not None for result in usable(self.summary.results))

    def figure(self, name: str | None) -> Statistics | None:
        """Statistics of a figure over the rounds; None where no round has the figure."""
        return self.summary.statistics.get(name or "")


@dataclass(frozen=True)
class Hole:
    """A gap of a submission, and the command that fills it."""

    description: str
    command: str


def jobs_in(folder: Path) -> list[MeasuredJob]:
    """The jobs of a run, or the job whose folder is given. Raises ConfigError where the folder holds no job."""
    run = folder.resolve().parent if is_job(folder) else folder
    return [MeasuredJob(run / summary.name, summary) for summary in read_jobs(folder)]


def submissions(jobs: Sequence[MeasuredJob]) -> list[list[MeasuredJob]]:
    """Groups of jobs of the same case, revision, framework and product, each group in the order of scale."""
    groups: dict[tuple[object, ...], list[MeasuredJob]] = {}
    for job in sorted(jobs, key=lambda job: (job.identity.nnodes, job.identity.nproc)):
        groups.setdefault(job.identity.of_submission, []).append(job)
    return list(groups.values())


def check(groups: Sequence[Sequence[MeasuredJob]], *, aligned: bool = False) -> None:
    """Raise an error where submissions have holes.

    Args:
        aligned: whether each job needs an alignment.

    Raises:
        ConfigError: it names every hole, and the commands that fill them.
    """
    missing = [hole for jobs in groups for hole in holes(jobs)]
    if aligned:
        missing += [hole for jobs in groups for hole in unaligned(jobs)]
    if missing:
        raise ConfigError(
            "no submission yet: something is missing",
            given=BELOW.join(hole.description for hole in missing),
            advice=BELOW.join(dict.fromkeys(hole.command for hole in missing)),
        )


def holes(jobs: Sequence[MeasuredJob]) -> Iterator[Hole]:
    """The holes in the jobs of a submission."""
    name = jobs[0].identity.on_product
    for scale in SCALES:
        at_scale = [job for job in jobs if job.identity.scale == scale]
        fit = [job for job in at_scale if not unfit(job)]
        if not at_scale:
            yield Hole(f"{name}: no job at {scale}", command(jobs[0], scale))
        elif not fit:
            yield from (Hole(f"{job.summary.name}: {unfit(job)}", command(job, scale)) for job in at_scale)
        elif scale == FULL_TRAINING and not any(
            job.trained_to_its_end and job.figure(metric(job.summary)) for job in fit
        ):
            yield from (Hole(f"{job.summary.name}: no accuracy, {_ended(job)}", command(job, scale)) for job in fit)


def unaligned(jobs: Sequence[MeasuredJob]) -> Iterator[Hole]:
    """A hole for each job of a submission that names no alignment with the curves of the case."""
    for job in jobs:
        identity = job.identity
        case = family_of(identity.case, [CONF])  # with the curves
        record, curves = job.config.get("alignment_record"), find(f"golden/{case}", [CONF])
        if not record or not curves or record["golden"] != sha256_of(curves):
            alignment = alignment_command(case, identity.vendor, identity.hardware)
            again = f"{command(job, identity.scale)} alignment=RUN_FOLDER"
            yield Hole(f"{job.summary.name}: no alignment with the curves of the case", f"{alignment}{BELOW}{again}")


def unfit(job: MeasuredJob) -> str:
    """The reason why a job is no part of a submission; "" where it fits."""
    if (verdict_text := verdict(job.summary)) in ("INVALID", "RUNNING"):
        reasons = [reason for result in job.summary.results for reason in result.reasons]
        return ": ".join([verdict_text, *reasons[:1]])
    if job.identity.size != "full":
        return f"size={job.identity.size} is not the case"
    results = job.summary.results
    kinds = {
        "synthetic batches": any(result.synthetic for result in results),
        "sample data": any(result.sample_data for result in results),
        "other data than the case's": any(result.other_data for result in results),
    }
    if unusual := [kind for kind, is_so in kinds.items() if is_so]:
        return f"trained on {unusual[0]}"
    missing = [name for name in RATES if job.figure(name) is None]
    return f"no {', '.join(missing)}" if missing else ""


def _ended(job: MeasuredJob) -> str:
    reasons = {str(result.values.get("stop_reason")) for result in usable(job.summary.results)}
    return f"ended by {', '.join(sorted(reasons))}"


def command(job: MeasuredJob, scale: str) -> str:
    """The command for the case of a job at another scale, to its end."""
    config, identity, (nnodes, nproc) = job.config, job.identity, scale.split("x")
    on_samples = any(result.sample_data for result in job.summary.results)
    precision = [change.after for change in job.summary.changes if _is_chosen(change, "precision")]
    unknown = on_samples or config["data_dir"] in (None, "", DATA_DIR)
    words = {
        "model": identity.case,
        "framework": "" if identity.main_framework else identity.framework,
        "vendor": identity.vendor,
        "hardware": identity.hardware,
        "size": "full",  # some vendors' files choose another size
        "nnodes": nnodes if nnodes != "1" else "",
        "nproc": nproc,
        "cluster": _cluster(config["cluster"], int(nnodes)),
        "precision": precision[0] if precision else "",
        "data_dir": "PATH" if unknown else config["data_dir"],
    }
    return shlex.join(["flagperf", *(f"{key}={value}" for key, value in words.items() if value)])


def _is_chosen(change: Change, key: str) -> bool:
    """Whether the user chose the value. A tuning has its own value for each scale."""
    return change.key == key and not change.source.startswith("tuning ")


def _cluster(cluster: Mapping[str, Any], nnodes: int) -> str:
    """The cluster of the job where it has enough hosts, else NAME as a placeholder."""
    if nnodes > max(1, len(cluster.get("nodes") or ())):
        return "NAME"
    name = str(cluster.get("name", "local"))
    return "" if name == "local" else name
