"""`train_batch_size=auto`: finds the largest batch that fits by short trainings, before the first round of a job.

Each size is tried like a round, by new processes on all nodes. So all ranks have the size of the launcher, a rank
without memory harms no other size, and the measured training begins on empty devices.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from rich.console import Console
from typing_extensions import override

from flagperf.config.parts.batch_size import GLOBAL, KEY
from flagperf.config.schema.limits import Limits
from flagperf.config.schema.values import JobConfig
from flagperf.contract.fields import size_in_bytes
from flagperf.contract.hardware import GIB
from flagperf.contract.outcome import Failure, Outcome
from flagperf.contract.records import BatchSearch, TriedSize
from flagperf.contract.settings import ENDS, EVALUATIONS
from flagperf.contract.sys_info import read_sys_info
from flagperf.errors import ConfigError, InterruptedRunError, TrainingError
from flagperf.plan.plan import make_plan
from flagperf.results import batch_sizes
from flagperf.results.rank_log import node_folders, read_rank_logs
from flagperf.run.console import note
from flagperf.run.execute import execute
from flagperf.run.progress import Progress
from flagperf.run.resume import earlier_batch_size

FOLDER = "auto_batch"  # in the folder of a job: the logs of each size

log = logging.getLogger(__name__)


class _Quiet(Progress):
    """Shows the trial of a size. A size that does not fit is no failure of the run."""

    @override
    def failure(self, failure: Failure) -> None:
        log.info("%s", failure)


async def with_found_size(job: JobConfig, folder: Path, console: Console) -> JobConfig:
    """The job with the largest size that fits. A resumed job has the size of the earlier run.

    Args:
        folder: the run folder, which gets the record of the search.

    Raises:
        FlagperfError: no size fits, or a training failed for another reason.
    """
    assert job.sized is not None
    if (size := earlier_batch_size(job)) is not None:
        note(console, f"{KEY}=auto: {size}, as in the run that is resumed")
        return job.sized(size)
    search = await _search(job, folder / job.name, console)
    if search.found is None:
        raise _nothing_fits(search)
    sized_job = job.sized(search.found)
    limit_text = (
        "that the devices hold" if search.limit is None else f"that takes no more than {search.limit:.3g} GiB a rank"
    )
    unchanged = "lr" if job.sizes is None else GLOBAL
    note(
        console,
        f"{KEY}=auto: {search.found}, the largest {limit_text}; {unchanged} stays {sized_job.config[unchanged]:g}",
    )
    return sized_job


async def _search(job: JobConfig, folder: Path, console: Console) -> BatchSearch:
    assert job.sized is not None
    search = BatchSearch(None, _configured_limit(job), (), job.sizes)
    while (size := batch_sizes.next_size(job.train_batch_size, search.tried, search.limit, job.sizes)) is not None:
        note(console, f"trying {KEY}={size}")
        size_folder = folder / FOLDER / str(size)
        size_folder.mkdir(parents=True)
        trial = _trial(job.sized(size))
        with _Quiet(trial, console) as progress:
            plan = make_plan(trial, 1, size_folder, on_hosts=f"{folder.parent.name}-{token_hex(4)}")
            outcome = await execute(trial, plan, size_folder, progress)
        limit = search.limit or _of_host(job, outcome)
        smaller = any(
            trial_result.peak_memory is not None and size < trial_result.size for trial_result in search.tried
        )
        tried = (*search.tried, _tried(job, size, limit, outcome, smaller))
        note(console, f"{KEY}={size}: {_result_text(tried[-1], job.throughput_unit)}")
        search = replace(search, found=batch_sizes.largest(tried), limit=limit, tried=tried)
        batch_sizes.write(search, folder)
    return search


def _result_text(tried: TriedSize, unit: str) -> str:
    """ "fits, 12.3 GiB a rank, 512 samples/s" """
    memory = None if tried.peak_memory is None else f"{tried.peak_memory:.3g} GiB a rank"
    rate = None if tried.throughput is None else f"{tried.throughput:.1f} {unit}"
    return ", ".join(filter(None, (tried.note or "fits", memory, rate)))


def _trial(job: JobConfig) -> JobConfig:
    """The job as a training of few steps, without evaluations and checkpoints."""
    steps = job.auto_batch.steps
    disabled = dict.fromkeys((*ENDS, *EVALUATIONS, "checkpoint_freq", "probe"))
    short = {"initial_evaluation": False, "sinks": [], "max_steps": steps, "warmup_steps": steps // 2}
    job = replace(job, config={**job.config, **disabled, **short}, limits=Limits(max_steps=steps), target=None)
    return replace(job, repeat=1, probe=None, resume=None, clear_caches=False)


# ---------------------------------------------------------------- limits and outcomes


def _configured_limit(job: JobConfig) -> float | None:
    """GiB that a rank may use: the configured limit, or a share of the memory in the product's data sheet."""
    settings = job.auto_batch
    if settings.limit is not None:
        return size_in_bytes(settings.limit) / GIB
    return None if job.hardware.memory_gib is None else settings.memory * job.hardware.memory_gib


def _of_host(job: JobConfig, outcome: Outcome) -> float | None:
    """GiB that a rank on a CPU may use: its part of the available memory, on the host with the least."""
    if job.vendor.device != "cpu":
        return None
    available = min(_available(job, outcome), default=None)
    return None if available is None else job.auto_batch.memory * available / job.nproc


def _available(job: JobConfig, outcome: Outcome) -> Iterator[float]:
    for _, _, folder in node_folders(outcome.folder):
        memory = read_sys_info(folder).get("memory_available_kib", "")
        if memory.isdigit():
            yield int(memory) * 1024 / GIB
    if job.container is not None and job.container.memory is not None:
        yield size_in_bytes(job.container.memory) / GIB


def _tried(job: JobConfig, size: int, limit: float | None, outcome: Outcome, smaller: bool) -> TriedSize:
    """The result of a trial.

    Args:
        smaller: whether a larger size trained. Then a rank that fails has too few samples.

    Raises:
        FlagperfError: the training failed for another reason than its size.
    """
    if outcome.status == "interrupted":
        raise InterruptedRunError
    if outcome.failure is not None:
        return TriedSize(size, _unfit(job, outcome.failure, smaller))
    figures = next((log.finished for log in read_rank_logs(outcome.folder) if log.finished), None)
    if figures is None:
        raise TrainingError(f"{KEY}={size}: no rank logged FINISHED; see {outcome.folder}")
    memory, throughput = figures["peak_memory"], figures["steady_throughput"] or figures["p_train"]
    remark = "over the limit" if limit is not None and memory > limit else ""
    return TriedSize(size, remark, memory, throughput)


def _unfit(job: JobConfig, failure: Failure, smaller: bool) -> str:
    """Why a size does not fit. Raises FlagperfError where the training failed for another reason."""
    if failure.details.get("key") == KEY:
        return failure.cause  # the data is too small for one step
    text = "\n".join((failure.cause, *failure.last_lines))
    if any(re.search(pattern, text) for pattern in job.framework.failures.out_of_memory):
        return "out of memory"
    if smaller and failure.rank is not None:
        return failure.cause  # too few samples: a batch of one has no variance for a normalization
    if failure.is_refusal:
        raise ConfigError(
            failure.cause,
            where=failure.details["where"],
            **{name: failure.details.get(name) for name in ("key", "given", "allowed")},
            advice=failure.details.get("do"),
        )
    raise TrainingError(f"{KEY}=auto: {failure}")


def _nothing_fits(search: BatchSearch) -> ConfigError:
    measured = [tried for tried in search.tried if tried.peak_memory is not None]
    smallest = min(measured or search.tried, key=lambda tried: tried.size)
    memory = "" if smallest.peak_memory is None else f" ({smallest.peak_memory:.3g} GiB)"
    return ConfigError(
        f"not even a batch of {smallest.size} fits: {smallest.note}{memory}",
        key=KEY,
        given="auto",
        allowed=None if search.limit is None else f"{search.limit:.3g} GiB a rank",
        advice="fewer ranks on a host, another precision, activation_checkpointing=true, or a higher auto_batch.limit",
    )
