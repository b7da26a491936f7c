"""What the README of a model folder tells as measured: a row a job, what is missing, and how it aligns with CUDA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flagperf.compare.align import Alignment, align
from flagperf.compare.jobs import NamedJob, pair_runs
from flagperf.config.schema.values import RunConfig
from flagperf.errors import ConfigError
from flagperf.partners.flagperf.submission import Job, belongs_to, unfit
from flagperf.report import cells
from flagperf.results.summary import usable, verdict

SHARE = 0.01  # the guide: accuracy within 1 % of CUDA's, with equal settings
NONE = "/"
NO_PARTNER = "没有同一规模的参考"
WORDS = {"passed": "一致", "failed": "不一致", "undecided": "无法判断"}


def rows(run: RunConfig, jobs: Sequence[Job]) -> list[dict[str, str]]:
    """One row a job that counts."""
    return [_row(job) for job in _own(run, jobs) if usable(job.summary.results)]


def left_out(run: RunConfig, jobs: Sequence[Job]) -> list[str]:
    """The jobs that do not count, and why."""
    return [f"{job.summary.name}: {unfit(job)}" for job in _own(run, jobs) if not usable(job.summary.results)]


def missing(run: RunConfig, jobs: Sequence[Job]) -> list[str]:
    """The scales at which the full case was not measured on the product: one device, one card, one machine."""
    card, machine = run.hardware.devices_per_card, run.hardware.devices_per_node or run.hardware.devices_per_card
    there = {job.config["nproc"] for job in _own(run, jobs) if job.config["nnodes"] == 1 and not unfit(job)}
    return [f"{run.hardware.name} 1x{count}" for count in dict.fromkeys((1, card, machine)) if count not in there]


def _own(run: RunConfig, jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if belongs_to(job.config) == belongs_to(run.config)]


def of_others(run: RunConfig, jobs: Sequence[Job]) -> list[Job]:
    """Jobs that the README does not tell of: neither the product's, of this revision of the case, nor a reference."""
    own = _own(run, jobs)
    return [job for job in jobs if job not in own and not _is_reference(run, job)]


def _is_reference(run: RunConfig, job: Job) -> bool:
    return bool(job.config["case"] == run.case and job.config["vendor"]["name"] != run.vendor.name)


def _row(job: Job) -> dict[str, str]:
    cell = cells.row(job.summary)
    reduced = [] if job.config["size"] == "full" else [f"size={job.config['size']}"]
    notes = [*reduced, *cells.notes(job.summary)]
    found = {
        "加速卡": f"{job.config['vendor']['name']} {job.config['hardware']['name']}",
        "节点x设备": job.scale,
        "混合精度": job.config["precision"],
        "每设备批大小": str(job.config["train_batch_size"]),
        "学习率": str(job.config["lr"]),
        f"性能 ({cell['unit']})": cell["p_train"],
        "精度": cell["accuracy"] if job.trained_to_its_end else NONE,
        "训练耗时 (s)": cell["e2e_time [s]"] if job.trained_to_its_end else NONE,
        "判定": verdict(job.summary),
        "说明": "; ".join(notes),
    }
    return {name: text.replace(cells.ABSENT, NONE) or NONE for name, text in found.items()}


def alignment(run: RunConfig, jobs: Sequence[Job]) -> list[dict[str, str]]:
    """The product's trainings held against those of another vendor, as `flagperf compare REF NEW align=1%` does.

    One without a counterpart has a row that says so; there is none at all where no other vendor's run was given.
    """
    own, references = _named(_own(run, jobs)), _named([job for job in jobs if _is_reference(run, job)])
    if not own or not references:
        return []
    found = pair_runs([references, own])
    alone = [_aligned_row(NONE, job, "undecided", NO_PARTNER) for job in own if job.name in found.alone]
    return [row for pair in found.pairs for row in _aligned(*pair)] + alone


def _named(jobs: Sequence[Job]) -> list[NamedJob]:
    """Those that count."""
    return [NamedJob(str(job.folder.parent), job.summary) for job in jobs if usable(job.summary.results)]


def _aligned(reference: NamedJob, other: NamedJob) -> Iterator[dict[str, str]]:
    name = reference.summary.name
    try:
        for one in align(reference, other, SHARE):
            yield _aligned_row(name, other, one.outcome, one.decision.why, one)
    except ConfigError as error:
        why = f"{error.problem}: {error.key}: {error.given}; {error.allowed}".replace(reference.name, name)
        yield _aligned_row(name, other, "undecided", why)


def _aligned_row(reference: str, job: NamedJob, outcome: str, why: str, one: Alignment | None = None) -> dict[str, str]:
    return {
        "参考": reference,
        "本卡": job.summary.name,
        "种子": str(one.seed) if one else NONE,
        "loss 平均相对误差": cells.percent(one.loss_error if one else None).replace(cells.ABSENT, NONE),
        "精度相对误差": cells.percent(one.metric_error if one else None).replace(cells.ABSENT, NONE),
        f"结论 (≤ {cells.percent(SHARE)})": WORDS[outcome],
        "说明": why,
    }
