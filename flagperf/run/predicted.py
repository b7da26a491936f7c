"""Jobs → predictions of their memory: what a rank needs on its product, what fits, and what changes would do."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flagperf.config.parts.batch_size import GLOBAL
from flagperf.config.schema.values import JobConfig
from flagperf.contract.trace import Trace
from flagperf.errors import ConfigError, FlagperfError
from flagperf.plan.plan import OWN_CODE, make_plan
from flagperf.predict.memory import Fit, next_batch, settled
from flagperf.predict.tracing import Tracer, Untraced
from flagperf.user import cache_folder

BATCH, MICRO_STEPS = "train_batch_size", "gradient_accumulation_steps"
TRIES = 4  # traces for the largest batch


@dataclass(frozen=True)
class Effect:
    """What a change of the command line would do."""

    change: Mapping[str, Any]
    fit: Fit | None
    reason: str = ""  # why there is no fit

    @property
    def words(self) -> str:
        """The change as words of a command line."""
        return " ".join(f"{key}={_written(value)}" for key, value in self.change.items())


@dataclass(frozen=True)
class Prediction:
    """The memory of a job, and the effects of changes."""

    job: JobConfig
    trace: Trace
    fit: Fit
    largest: int | None = None  # batch of a device that fits; None: unknown
    effects: tuple[Effect, ...] = ()


def tracer_of(job: JobConfig) -> Tracer:
    """The program that traces a job, and the interpreter for it.

    Raises:
        FlagperfError: the framework has no such program, or no interpreter of this machine has the framework.
    """
    module = job.framework.trace
    if module is None:
        raise FlagperfError(f"{job.framework.product} cases are not predicted: only PyTorch cases can be traced")
    return Tracer(_python(job), module, _import_path(job), cache_folder() / "traces")


def _import_path(job: JobConfig) -> str:
    parts = (str(OWN_CODE), job.code_dir or "", job.python_path)
    return os.pathsep.join(part for part in parts if part)


def _python(job: JobConfig) -> str:
    """The interpreter of the ranks where they run here, else the launcher's own if it has the framework."""
    here = all(node.same_files for node in job.cluster.nodes[: job.nnodes]) and job.container is None
    if here and job.runtime.python:
        return job.runtime.python
    if job.local_python != sys.executable or importlib.util.find_spec(job.framework.module) is not None:
        return job.local_python
    raise FlagperfError(f"this machine has no {job.framework.module}: {job.framework.install}")


def traces(jobs: Sequence[JobConfig]) -> list[Trace | Untraced]:
    """The traces of jobs of one framework."""
    return tracer_of(jobs[0]).traces([config_of(job) for job in jobs])


def config_of(job: JobConfig) -> Mapping[str, Any]:
    """What a rank of the job would read."""
    return make_plan(job, 1, placeholders=True).config


def predict(jobs: Sequence[JobConfig], changes: Sequence[Mapping[str, Any]] = ()) -> list[Prediction | FlagperfError]:
    """The prediction of each job, or why there is none.

    Args:
        changes: of each job; their effects are predicted, too.

    Raises:
        FlagperfError: no job can be traced on this machine.
    """
    variants = [
        [(change, changed(job, change)) for change in (_other_batch(job), *changes)] for job in jobs
    ]  # of each job, the one of another batch size first
    possible = [variant for group in variants for _, variant in group if isinstance(variant, JobConfig)]
    answers = traces([*jobs, *possible])
    firsts, by_job = answers[: len(jobs)], dict(zip(map(id, possible), answers[len(jobs) :], strict=True))
    seconds = [by_job.get(id(other_batch)) for (_, other_batch), *_ in variants]
    largest = largest_batches(jobs, list(zip(firsts, seconds, strict=True)))
    return [_prediction(*each, by_job) for each in zip(jobs, firsts, largest, variants, strict=True)]


def _prediction(
    job: JobConfig,
    first: Trace | Untraced,
    largest: int | None,
    variants: Sequence[tuple[Mapping[str, Any], JobConfig | ConfigError]],
    by_job: Mapping[int, Trace | Untraced],
) -> Prediction | FlagperfError:
    if isinstance(first, Untraced):
        return untraced(first)
    effects = tuple(effect_of(change, variant, by_job.get(id(variant))) for change, variant in variants[1:])
    return Prediction(job, first, Fit.of(first, job.config), largest, effects)


def untraced(answer: Untraced) -> FlagperfError:
    """The error that says why a job has no trace."""
    where = f" in the module {answer.module}" if answer.module else ""
    return FlagperfError(f"the case cannot be traced{where}: {answer.reason}")


def changed(job: JobConfig, change: Mapping[str, Any]) -> JobConfig | ConfigError:
    """The job with a change, or why the case refuses the change. An optimizer step keeps its samples."""
    assert job.changed is not None
    keeps = {} if job.config[GLOBAL] is None else {MICRO_STEPS: "auto"}
    try:
        return job.changed({**keeps, **change})
    except ConfigError as error:
        return error


def effect_of(change: Mapping[str, Any], job: JobConfig | ConfigError, trace: Trace | Untraced | None) -> Effect:
    """What a change does, by the trace of the changed job."""
    if isinstance(job, ConfigError):
        return Effect(change, None, job.problem)
    if isinstance(trace, Trace):
        return Effect(change, Fit.of(trace, job.config))
    return Effect(change, None, trace.reason if trace else "no trace")


def largest_that_fits(job: JobConfig) -> int | None:
    """The largest batch that fits by the line through two sizes, with the micro steps of the job; None: unknown."""
    other = changed(job, _other_batch(job))
    if isinstance(other, ConfigError):
        return None
    search = _Search.of(job, *traces([job, other]))
    return None if search is None else search.largest


def largest_batches(
    jobs: Sequence[JobConfig], answers: Sequence[tuple[Trace | Untraced, Trace | Untraced | None]]
) -> list[int | None]:
    """The largest batch of each job that fits; None: unknown.

    A line through two sizes names a size, and a trace of this size confirms it or gives another line.

    Args:
        answers: of each job, the traces of two batch sizes.
    """
    searches = [_Search.of(job, *pair) for job, pair in zip(jobs, answers, strict=True)]
    for _ in range(TRIES):
        tried = [(search, variant) for search in searches if search and (variant := search.next())]
        if not tried:
            break
        for (search, _), answer in zip(tried, traces([variant for _, variant in tried]), strict=True):
            search.add(answer)
    return [None if search is None else search.largest for search in searches]


@dataclass
class _Search:
    """The search for the largest batch of a job."""

    job: JobConfig
    needed: dict[int, float]  # GiB of a device by batch size
    memory: float
    ended: bool  # no more traces: the line tells
    largest: int = 0

    @classmethod
    def of(cls, job: JobConfig, first: Trace | Untraced, second: Trace | Untraced | None) -> _Search | None:
        """None: there is nothing to search with."""
        memory = Fit.of(first, job.config).memory if isinstance(first, Trace) else None
        if memory is None or not isinstance(first, Trace) or not isinstance(second, Trace):
            return None
        search = cls(job, {}, memory, ended=first.case.how == "values")  # each batch lies on one line
        search.add(first)
        search.add(second)
        return search

    def add(self, answer: Trace | Untraced) -> None:
        """A trace of another size."""
        if isinstance(answer, Untraced):
            self.ended = True
            return
        self.needed[answer.case.batch_size] = Fit.of(answer, self.job.config).needed
        if len(self.needed) > 1:
            self.largest = next_batch(self.needed, self.memory)

    def next(self) -> JobConfig | None:
        """The job with the size to trace next; None: the search has ended."""
        if self.ended or settled(self.needed, self.memory, self.largest):
            return None
        variant = changed(self.job, _with_batch(self.job, self.largest))
        return variant if isinstance(variant, JobConfig) else None


def _other_batch(job: JobConfig) -> Mapping[str, Any]:
    """A second size, to draw a line through both."""
    return _with_batch(job, job.train_batch_size // 2 if job.train_batch_size > 1 else 2)


def _with_batch(job: JobConfig, size: int) -> Mapping[str, Any]:
    """The change to another batch. The micro steps stay: several hold whole gradients, one does not."""
    return {BATCH: size, GLOBAL: None, MICRO_STEPS: job.config[MICRO_STEPS], "division": "open"}


def _written(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value).replace("'", "").replace(" ", "")
