"""Before the first round of a job: a step that does not fit into its devices is refused, with changes that fit.

Only a trace that `flagperf predict` left in the cache is read, so that no start waits for a trace.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from flagperf.config.schema.values import JobConfig
from flagperf.contract.trace import Trace, to_json
from flagperf.errors import ConfigError, FlagperfError
from flagperf.predict.memory import Fit
from flagperf.results.achievable import FILE
from flagperf.run.predicted import config_of, tracer_of
from flagperf.run.ways_to_fit import ways_to_fit

log = logging.getLogger(__name__)


def check_fit(job: JobConfig, folder: Path, say: Callable[[str], object]) -> None:
    """Refuse a job whose tensors are larger than the memory of a device; warn where only the margin is lacking.

    Args:
        folder: of the run; the job's folder gets the trace, for the report.

    Raises:
        ConfigError: the step does not fit.
    """
    if not (job.predict and job.framework.trace):
        return
    try:
        trace = tracer_of(job).cached(config_of(job))
    except FlagperfError as error:
        log.info("no prediction: %s", error)
        return
    if trace is None:
        return
    job_folder = folder / job.name
    job_folder.mkdir(parents=True, exist_ok=True)
    (job_folder / FILE).write_text(to_json(trace), encoding="utf-8")
    fit = Fit.of(trace, job.config)
    if fit.verdict == "tight":
        needed = f"predicted {fit.needed:.1f} GiB, of which {fit.tensors:.1f} GiB are tensors"
        say(f"a step may not fit: {needed}; {job.hardware.name} has {fit.memory:g} GiB")
    if fit.verdict == "does not fit":
        raise refusal(job, trace, fit)


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
