"""All rounds of one job → Summary with statistics and the job's verdict, and summary.json."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import build
from flagperf.contract.records import BatchSearch, Change, Result, Statistics, Summary, Verdict
from flagperf.errors import ConfigError
from flagperf.results import batch_sizes
from flagperf.results.result import from_record, read_json, record_of, write_json
from flagperf.results.verdict import worst

FILE = "summary.json"
RATES = ("p_whole", "p_train", "p_core")
FIGURES = ("e2e_time", *RATES, "steady_throughput", "mfu", "mfu_achieved", "mfu_formula", "peak_memory")
STEPS = "steps_to_target"  # optimizer steps of the rounds that reached the target
MAX_CV = 0.05  # `max_cv` of runs that were made before there was the key


def summarize(job: JobConfig, results: Iterable[Result], folder: Path) -> Summary:
    """Statistics over the rounds of a job, whose folder holds what came before them."""
    return summary_of(job.name, results, job.config, job.changes, batch_sizes.read(folder))


def summary_of(
    name: str,
    results: Iterable[Result],
    config: Mapping[str, Any],
    changes: Iterable[Change],
    batch: BatchSearch | None = None,
) -> Summary:
    """Statistics over the rounds whose numbers can be used; the others stay in `results`."""
    rounds = tuple(results)
    figures = _statistics(usable(rounds))
    return Summary(name, rounds, figures, config, tuple(changes), tuple(_rounds_differ(figures, config)), batch)


def usable(results: Iterable[Result]) -> tuple[Result, ...]:
    """The rounds that count: those that have ended and are not INVALID."""
    return tuple(result for result in results if result.verdict in ("VALID", "SUSPECT"))


def verdict(summary: Summary) -> Verdict:
    """The worst of its rounds; at least SUSPECT where the job as a whole is."""
    of_job: tuple[Verdict, ...] = ("SUSPECT",) if summary.reasons else ()
    return worst([*of_job, *(result.verdict for result in summary.results)])


def _rounds_differ(figures: Mapping[str, Statistics], config: Mapping[str, Any]) -> Iterator[str]:
    """Why rounds of so different a throughput are no measurement."""
    known = {name: figures[name].cv or 0.0 for name in RATES if name in figures}
    name, most = max(known, key=known.__getitem__, default=""), config.get("max_cv", MAX_CV)
    if known and known[name] > most:
        yield (
            f"the throughput of its rounds varies by {100 * known[name]:.3g} % (coefficient of variation of {name}), "
            f"over max_cv={most:g}. Was the machine busy with something else?"
        )


def metric(summary: Summary) -> str | None:
    """The figure that holds the metric of the case's target, e.g. "final_acc1"."""
    target = summary.results[0].target if summary.results else None
    return f"final_{target.metric}" if target else None


def write(summary: Summary, folder: Path) -> Path:
    """Write summary.json, which holds the job as a whole: configuration, changes, rounds and statistics."""
    record = {"verdict": verdict(summary), **dataclasses.asdict(dataclasses.replace(summary, results=()))}
    return write_json({**record, "results": list(map(record_of, summary.results))}, folder / FILE)


def read(folder: Path) -> Summary:
    """Read a summary.json back. Raises ConfigError where it was written by another version or is damaged."""
    path = folder / FILE
    record = read_json(path)
    try:
        return Summary(
            record["name"],
            tuple(from_record(result, record["config"], path) for result in record["results"]),
            {figure: Statistics(**values) for figure, values in record["statistics"].items()},
            record["config"],
            tuple(Change(**change) for change in record["changes"]),
            tuple(record.get("reasons", ())),
            build(BatchSearch, record["batch"], "batch", lambda _: str(path)) if record.get("batch") else None,
        )
    except (KeyError, TypeError) as error:
        raise ConfigError("not a summary of flagperf", where=str(path), given=str(error)) from None


def per_round(results: Sequence[Result]) -> dict[str, list[float]]:
    """Figure → its value in each round that has it; figures that at least one round has."""
    target = results[0].target if results else None
    figures = (*FIGURES, f"final_{target.metric}") if target else FIGURES
    found = {figure: [result.values.get(figure) for result in results] for figure in figures}
    found[STEPS] = [result.values.get("global_steps") for result in results if result.target_reached]
    numbers = {figure: [value for value in values if value is not None] for figure, values in found.items()}
    return {figure: values for figure, values in numbers.items() if values}


def _statistics(results: Sequence[Result]) -> dict[str, Statistics]:
    return {figure: describe(values) for figure, values in per_round(results).items()}


def describe(values: Sequence[float]) -> Statistics:
    """Statistics of one figure, from a value a round; at least one."""
    mean = statistics.fmean(values)
    stdev = statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None
    cv = stdev / abs(mean) if stdev is not None and mean else None
    return Statistics(len(values), mean, stdev, min(values), max(values), cv)
