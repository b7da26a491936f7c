"""Jobs → predictions of their memory: what a rank needs on its product, what fits, and what changes would do."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flagperf.config.schema.values import JobConfig
from flagperf.contract.mesh import DATA_PARALLEL, STRATEGIES
from flagperf.contract.trace import Trace
from flagperf.errors import ConfigError, FlagperfError
from flagperf.plan.plan import OWN_CODE, make_plan
from flagperf.predict.memory import Fit, largest_batch
from flagperf.predict.tracing import Tracer, Untraced, cache_folder

BATCH, MICRO_STEPS = "train_batch_size", "gradient_accumulation_steps"
CHECKPOINTING, CHUNK = {"activation_checkpointing": True}, {"loss_chunk": 2048}


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
    """What was found for one job."""

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


def predict(jobs: Sequence[JobConfig], *, effects: bool) -> list[Prediction | FlagperfError]:
    """The prediction of each job, or why there is none.

    Args:
        effects: whether changes are predicted, too.

    Raises:
        FlagperfError: no job can be traced on this machine.
    """
    all_others = []
    for job in jobs:
        changes = changes_of(job) if effects else []
        all_others.append([(change, changed(job, change)) for change in [_other_batch(job), *changes]])
    possible = [other for others in all_others for _, other in others if isinstance(other, JobConfig)]
    found = traces([*jobs, *possible])
    of_others = dict(zip(map(id, possible), found[len(jobs) :], strict=True))
    return [_prediction(*each, of_others) for each in zip(jobs, found[: len(jobs)], all_others, strict=True)]


def _prediction(
    job: JobConfig,
    first: Trace | Untraced,
    others: Sequence[tuple[Mapping[str, Any], JobConfig | str]],
    found: Mapping[int, Trace | Untraced],
) -> Prediction | FlagperfError:
    if isinstance(first, Untraced):
        return untraced(first)
    (_, batch_job), *others = others
    second = found.get(id(batch_job))
    return Prediction(
        job,
        first,
        Fit.of(first, job.config),
        largest_batch(first, second, job.config) if isinstance(second, Trace) else None,
        tuple(_effect(change, other, found.get(id(other))) for change, other in others),
    )


def untraced(why: Untraced) -> FlagperfError:
    """The error that says why a job has no trace."""
    where = f" in the module {why.module}" if why.module else ""
    return FlagperfError(f"the case cannot be traced{where}: {why.reason}")


def changed(job: JobConfig, change: Mapping[str, Any]) -> JobConfig | str:
    """The job with a change, or why the case refuses the change. An optimizer step keeps its samples."""
    assert job.changed is not None
    keeps = {} if job.config["global_batch_size"] is None else {MICRO_STEPS: "auto"}
    try:
        return job.changed({**keeps, **change})
    except ConfigError as error:
        return error.problem


def _effect(change: Mapping[str, Any], job: JobConfig | str, trace: Trace | Untraced | None) -> Effect:
    if isinstance(job, str):
        return Effect(change, None, job)
    if isinstance(trace, Trace):
        return Effect(change, Fit.of(trace, job.config))
    return Effect(change, None, trace.reason if trace else "no trace")


def _other_batch(job: JobConfig) -> Mapping[str, Any]:
    """A second size, to draw a line through both."""
    size = job.train_batch_size
    return {BATCH: size // 2 if size > 1 else 2}


def changes_of(job: JobConfig) -> list[Mapping[str, Any]]:
    """Changes that may lower the memory of a job, each alone: those for which the case has settings."""
    config, ranks = job.config, job.nnodes * job.nproc
    found: list[Mapping[str, Any]] = []
    if config["checkpoint_modules"] and not config["activation_checkpointing"]:
        found.append(CHECKPOINTING)
    if "loss_chunk" in config and config["loss_chunk"] is None:
        found.append(CHUNK)
    if job.strategy in (None, *DATA_PARALLEL):
        if config["checkpoint_modules"] and ranks > 1:
            found.append(_sharded(config["checkpoint_modules"]))
    elif job.nproc > 1 and job.mesh.tp == 1:
        found.append({"parallel.mesh.tp": 2, "parallel.mesh.dp_shard": -1})
    return found


def _sharded(block: str) -> Mapping[str, Any]:
    return {
        "parallel._target_": f"{STRATEGIES}.Sharded",
        "parallel.mesh.dp_replicate": 1,
        "parallel.mesh.dp_shard": -1,
        "+parallel.blocks": [block.rpartition(".")[2]],
    }


def ways_to_fit(job: JobConfig) -> list[Effect]:
    """Changes with which the job fits, by predictions: the most like the job first."""
    single = changes_of(job)
    smaller: list[Mapping[str, Any]] = [{BATCH: size} for size in _smaller(job.train_batch_size)]
    memory = [change for change in single if change in (CHECKPOINTING, CHUNK)]
    both: list[Mapping[str, Any]] = [{**CHECKPOINTING, **CHUNK}] if len(memory) == 2 else []
    with_batch = [{**change, **smaller[-1]} for change in (both or memory)] if smaller else []
    devices: list[Mapping[str, Any]] = [{"nnodes": job.nnodes * times} for times in (2, 4)]
    options = [*smaller, *single, *both, *with_batch, *devices]
    jobs = [(option, other) for option in options if isinstance(other := changed(job, option), JobConfig)]
    found = zip(jobs, traces([other for _, other in jobs]), strict=True) if jobs else ()
    effects = [_effect(option, other, trace) for (option, other), trace in found]
    return [effect for effect in effects if effect.fit is not None and effect.fit.verdict == "fits"]


def _smaller(size: int) -> list[int]:
    """Half of a size, and 1."""
    return sorted({size // 2, 1} - {0, size}, reverse=True)


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("'", "").replace(" ", "")
