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
from flagperf.predict.memory import Fit, largest_batch
from flagperf.predict.tracing import Tracer, Untraced, cache_folder

BATCH, MICRO_STEPS = "train_batch_size", "gradient_accumulation_steps"


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
    return Tracer(_python(job), module, _import_path(job), cache_folder())


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
    by_job = dict(zip(map(id, possible), answers[len(jobs) :], strict=True))
    return [_prediction(*each, by_job) for each in zip(jobs, answers[: len(jobs)], variants, strict=True)]


def _prediction(
    job: JobConfig,
    first: Trace | Untraced,
    variants: Sequence[tuple[Mapping[str, Any], JobConfig | ConfigError]],
    by_job: Mapping[int, Trace | Untraced],
) -> Prediction | FlagperfError:
    if isinstance(first, Untraced):
        return untraced(first)
    (_, other_batch), *effects = variants
    second = by_job.get(id(other_batch))
    return Prediction(
        job,
        first,
        Fit.of(first, job.config),
        largest_batch(first, second, job.config) if isinstance(second, Trace) else None,
        tuple(effect_of(change, variant, by_job.get(id(variant))) for change, variant in effects),
    )


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
    """The largest batch that fits, with the micro steps of the job; None: unknown."""
    other = changed(job, _other_batch(job))
    if isinstance(other, ConfigError):
        return None
    first, second = traces([job, other])
    return largest_batch(first, second, job.config) if isinstance(first, Trace) and isinstance(second, Trace) else None


def _other_batch(job: JobConfig) -> Mapping[str, Any]:
    """A second size, to draw a line through both. The micro steps stay: several hold whole gradients, one does not."""
    size = job.train_batch_size
    micro_steps = job.config[MICRO_STEPS]
    return {BATCH: size // 2 if size > 1 else 2, GLOBAL: None, MICRO_STEPS: micro_steps, "division": "open"}


def _written(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value).replace("'", "").replace(" ", "")
