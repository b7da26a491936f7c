"""The measured results for the README of a model folder: jobs, missing scales, and the alignment with CUDA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flagperf.compare.align import Alignment, align
from flagperf.compare.jobs import NamedJob, pair_runs
from flagperf.config.schema.values import JobConfig
from flagperf.errors import ConfigError
from flagperf.partners.flagperf.submission import MeasuredJob, unfit
from flagperf.report import cells
from flagperf.results.summary import usable, verdict

SHARE = 0.01  # the guide: accuracy within 1 % of CUDA's, with equal settings
NONE = "/"
NO_PARTNER = "没有同一规模的参考"
WORDS = {"passed": "一致", "failed": "不一致", "undecided": "无法判断"}


def rows(job: JobConfig, jobs: Sequence[MeasuredJob]) -> list[dict[str, str]]:
    """A row for each job that counts."""
    return [_row(measured) for measured in _own_jobs(job, jobs) if usable(measured.summary.results)]


def left_out(job: JobConfig, jobs: Sequence[MeasuredJob]) -> list[str]:
    """The jobs that do not count, with the reasons."""
    return [
        f"{measured.summary.name}: {unfit(measured)}"
        for measured in _own_jobs(job, jobs)
        if not usable(measured.summary.results)
    ]


def missing(job: JobConfig, jobs: Sequence[MeasuredJob]) -> list[str]:
    """The scales without a measurement of the full case on the product: one device, one card, one machine."""
    card, machine = job.hardware.devices_per_card, job.hardware.devices_per_node or job.hardware.devices_per_card
    measured_counts = {
        measured.identity.nproc
        for measured in _own_jobs(job, jobs)
        if measured.identity.nnodes == 1 and not unfit(measured)
    }
    return [
        f"{job.hardware.name} 1x{count}" for count in dict.fromkeys((1, card, machine)) if count not in measured_counts
    ]


def _own_jobs(job: JobConfig, jobs: Sequence[MeasuredJob]) -> list[MeasuredJob]:
    return [measured for measured in jobs if measured.identity.of_submission == job.identity.of_submission]


def of_others(job: JobConfig, jobs: Sequence[MeasuredJob]) -> list[MeasuredJob]:
    """Jobs that the README leaves out: neither on the product and of this revision, nor a reference."""
    own_jobs = _own_jobs(job, jobs)
    return [measured for measured in jobs if measured not in own_jobs and not _is_reference(job, measured)]


def _is_reference(job: JobConfig, measured: MeasuredJob) -> bool:
    return measured.identity.case == job.case and measured.identity.vendor != job.vendor.name


def _row(measured: MeasuredJob) -> dict[str, str]:
    cell = cells.row(measured.summary)
    identity = measured.identity
    reduced = [] if identity.size == "full" else [f"size={identity.size}"]
    notes = [*reduced, *cells.notes(measured.summary)]
    columns = {
        "加速卡": f"{identity.vendor} {identity.hardware}",
        "节点x设备": measured.identity.scale,
        "混合精度": identity.precision,
        "每设备批大小": str(identity.train_batch_size),
        "学习率": str(measured.config["lr"]),
        f"性能 ({cell['unit']})": cell["p_train"],
        "精度": cell["accuracy"] if measured.trained_to_its_end else NONE,
        "训练耗时 (s)": cell["e2e_time [s]"] if measured.trained_to_its_end else NONE,
        "判定": verdict(measured.summary),
        "说明": "; ".join(notes),
    }
    return {name: text.replace(cells.ABSENT, NONE) or NONE for name, text in columns.items()}


def alignment(job: JobConfig, jobs: Sequence[MeasuredJob]) -> list[dict[str, str]]:
    """The trainings on the product, compared with those of another vendor as by `flagperf compare REF NEW align=1%`.

    A training without a counterpart has a row that says so. Without runs of another vendor there are no rows.
    """
    own_jobs, references = (
        _named(_own_jobs(job, jobs)),
        _named([measured for measured in jobs if _is_reference(job, measured)]),
    )
    if not own_jobs or not references:
        return []
    matched = pair_runs([references, own_jobs])
    unpaired = [job for job in own_jobs if job.name in matched.unpaired]
    rows = [row for pair in matched.pairs for row in _aligned(*pair)]
    return rows + [_aligned_row(NONE, job, "undecided", NO_PARTNER) for job in unpaired]


def _named(jobs: Sequence[MeasuredJob]) -> list[NamedJob]:
    """The jobs that count."""
    return [
        NamedJob(str(measured.folder.parent), measured.summary) for measured in jobs if usable(measured.summary.results)
    ]


def _aligned(reference: NamedJob, other: NamedJob) -> Iterator[dict[str, str]]:
    name = reference.summary.name
    try:
        for training in align(reference, other, SHARE):
            yield _aligned_row(name, other, training.outcome, training.decision.why, training)
    except ConfigError as error:
        reason = f"{error.problem}: {error.key}: {error.given}; {error.allowed}".replace(reference.name, name)
        yield _aligned_row(name, other, "undecided", reason)


def _aligned_row(
    reference: str, job: NamedJob, outcome: str, reason: str, training: Alignment | None = None
) -> dict[str, str]:
    return {
        "参考": reference,
        "本卡": job.summary.name,
        "种子": str(training.seed) if training else NONE,
        "loss 平均相对误差": cells.percent(training.loss_error if training else None).replace(cells.ABSENT, NONE),
        "精度相对误差": cells.percent(training.metric_error if training else None).replace(cells.ABSENT, NONE),
        f"结论 (≤ {cells.percent(SHARE)})": WORDS[outcome],
        "说明": reason,
    }
