"""Before the first round of a job: a step that does not fit into its devices is refused, with changes that fit.

The step is traced in two cases: a case of full size on a device whose memory is known, and a run with probe=run,
whose report names the limits of the devices. Every other run reads a trace of an earlier command.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from flagperf.config.schema.values import JobConfig
from flagperf.contract.regular import write_atomically
from flagperf.contract.trace import Trace, to_json
from flagperf.errors import ConfigError, FlagperfError
from flagperf.predict.memory import Fit
from flagperf.predict.tracing import Untraced
from flagperf.results.achievable import FILE
from flagperf.run.predicted import config_of, tracer_of, untraced
from flagperf.run.ways_to_fit import ways_to_fit

log = logging.getLogger(__name__)


def check_fit(job: JobConfig, folder: Path, say: Callable[[str], object]) -> None:
    """Refuse a job whose tensors are larger than the memory of a device; warn where only the margin is lacking.

    Args:
        folder: of the run; the job's folder gets the trace, for the report.

    Raises:
        ConfigError: the step does not fit.
    """
    trace = _trace(job, say) if job.predict and job.framework.trace and job.sized is None else None
    if trace is None:
        return
    job_folder = folder / job.name
    job_folder.mkdir(parents=True, exist_ok=True)
    write_atomically(job_folder / FILE, to_json(trace))
    fit = Fit.of(trace, job.config)
    if fit.verdict == "tight":
        needed = f"predicted {fit.needed:.1f} GiB ({fit.tensors:.1f} GiB of tensors)"
        say(f"a step may not fit: {needed}; {job.hardware.name} has {fit.memory:g} GiB")
    if fit.verdict == "does not fit":
        say("the step does not fit; changes that fit are being searched")
        raise refusal(job, trace, fit)


def _trace(job: JobConfig, say: Callable[[str], object]) -> Trace | None:
    """The trace of a job, from the cache or made now; None where there is none."""
    worth = _worth_a_trace(job)
    try:
        tracer, config = tracer_of(job), config_of(job)
        trace = tracer.cached(config)
        if trace is None and worth:
            say("one step is traced without a device, to predict its memory and time (predict=false leaves this out)")
            (answer,) = tracer.traces([config])
            if isinstance(answer, Untraced):
                raise untraced(answer)
            trace = answer
    except FlagperfError as error:
        if worth:
            say(f"no prediction: {error}")
        log.info("no prediction: %s", error)
        return None
    return trace


def _worth_a_trace(job: JobConfig) -> bool:
    """Whether a trace tells whether the step fits, or what the probe of this run allows."""
    refusable = job.size == "full" and job.vendor.device != "cpu" and job.hardware.memory_gib is not None
    return refusable or job.probe == "run"


def refusal(job: JobConfig, trace: Trace, fit: Fit) -> ConfigError:
    """The error for a step that does not fit, with changes that fit by prediction."""
    try:
        ways = [f"{way.words} ({way.fit.needed:.1f} GiB)" for way in ways_to_fit(job) if way.fit is not None]
    except FlagperfError as error:
        log.info("no prediction of changes: %s", error)
        ways = []
    return ConfigError(
        "a step does not fit into the memory of a device",
        where=job.where("train_batch_size"),
        key="train_batch_size",
        given=f"{trace.case.batch_size}: {fit.tensors:.1f} GiB of tensors at the peak, in {trace.memory.phase}",
        allowed=f"at most {fit.memory:g} GiB, the memory of {job.hardware.name}",
        advice=" | ".join([*ways, "predict=false: start all the same"]),
    )
