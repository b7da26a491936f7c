"""All rounds of one job → Summary with statistics and the job's verdict, and summary.json."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.contract.build import build
from flagperf.contract.records import BatchSearch, Change, Convergence, Result, Statistics, Summary, Verdict
from flagperf.errors import ConfigError
from flagperf.results.convergence import convergence_of, sentence
from flagperf.results.json_record import read_json, write_json
from flagperf.results.result import from_record, record_of
from flagperf.results.verdict import worst

FILE = "summary.json"
RATES = ("p_whole", "p_train", "p_core")
UTILISATIONS = ("mfu", "mfu_achieved", "mfu_6n", "mfu_causal", "mfu_formula", "hfu")
FIGURES = ("e2e_time", *RATES, "steady_throughput", *UTILISATIONS, "peak_memory")
STEPS = "steps_to_target"  # optimizer steps of the rounds that reached the target
MAX_CV = 0.05  # `max_cv` of runs that were made before there was the key


def summary_of(
    name: str,
    results: Iterable[Result],
    config: Mapping[str, Any],
    changes: Iterable[Change],
    batch: BatchSearch | None = None,
) -> Summary:
    """The Summary of a job: all its rounds, and statistics over the rounds that can be used.

    Args:
        name: of the job's folder.
        config, changes: of the job.
        batch: the search of `train_batch_size=auto`; None: the job made none.
    """
    rounds = tuple(results)
    figures = {figure: describe(values) for figure, values in per_round(usable(rounds)).items()}
    convergence = convergence_of(rounds, config)
    reasons = (*_rounds_differ(figures, config), *_too_fast(convergence))
    return Summary(name, rounds, figures, config, tuple(changes), reasons, batch, convergence)


def usable(results: Iterable[Result]) -> tuple[Result, ...]:
    """The rounds that count: those that have ended and are not INVALID."""
    return tuple(result for result in results if result.verdict in ("VALID", "SUSPECT"))


def verdict(summary: Summary) -> Verdict:
    """The worst verdict of the rounds; at least SUSPECT where the job as a whole has a reason."""
    of_job: tuple[Verdict, ...] = ("SUSPECT",) if summary.reasons else ()
    return worst([*of_job, *(result.verdict for result in summary.results)])


def _rounds_differ(figures: Mapping[str, Statistics], config: Mapping[str, Any]) -> Iterator[str]:
    """The reason why the job is SUSPECT: the throughput varies too much between its rounds."""
    known = {name: figures[name].cv or 0.0 for name in RATES if name in figures}
    name, most = max(known, key=known.__getitem__, default=""), config.get("max_cv", MAX_CV)
    if known and known[name] > most:
        yield (
            f"the throughput of its rounds varies by {100 * known[name]:.3g} % (coefficient of variation of {name}), "
            f"over max_cv={most:g}. Was the machine busy with something else?"
        )


def _too_fast(convergence: Convergence | None) -> Iterator[str]:
    """The reason why a job that converges faster than its reference allows is SUSPECT."""
    if convergence is not None and convergence.outcome == "faster":
        yield (
            f"{sentence(convergence)}. Does the training evaluate other data, or train on the evaluation's data? "
            "Or are the reference points older than a change of the case?"
        )


def metric(summary: Summary) -> str | None:
    """The figure that holds the metric of the case's target, e.g. "final_acc1"."""
    target = summary.results[0].target if summary.results else None
    return f"final_{target.metric}" if target else None


def write(summary: Summary, folder: Path) -> Path:
    """Write summary.json: configuration, changes, rounds and statistics of the job."""
    record = {"verdict": verdict(summary), **dataclasses.asdict(dataclasses.replace(summary, results=()))}
    return write_json({**record, "results": list(map(record_of, summary.results))}, folder / FILE)


def read(folder: Path) -> Summary:
    """Read summary.json of a job's folder.

    Raises:
        ConfigError: another version wrote the file, or it is damaged.
    """
    path = folder / FILE
    record = read_json(path)
    fields = {field.name: record[field.name] for field in dataclasses.fields(Summary) if field.name in record}
    try:
        summary = build(Summary, {**fields, "results": ()}, "", lambda _: str(path))
        return dataclasses.replace(summary, results=_rounds(record.get("results"), summary, path))
    except ConfigError as error:
        given = f"{error.key}: {error.problem}"
        raise ConfigError("not a summary of flagperf", where=str(path), given=given) from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError("not a summary of flagperf", where=str(path), given=str(error)) from None


def _rounds(records: Any, summary: Summary, path: Path) -> tuple[Result, ...]:
    return tuple(from_record(record, summary.config, path) for record in records)


def per_round(results: Sequence[Result]) -> dict[str, list[float]]:
    """Figure → its values, one for each round that has it. Figures without a value are left out."""
    target = results[0].target if results else None
    figures = (*FIGURES, f"final_{target.metric}") if target else FIGURES
    values_of = {figure: [result.values.get(figure) for result in results] for figure in figures}
    values_of[STEPS] = [result.values.get("global_steps") for result in results if result.target_reached]
    numbers = {figure: [value for value in values if value is not None] for figure, values in values_of.items()}
    return {figure: values for figure, values in numbers.items() if values}


def describe(values: Sequence[float]) -> Statistics:
    """Statistics of a figure, from its value in each round; at least one value."""
    mean = statistics.fmean(values)
    stdev = statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None
    cv = stdev / abs(mean) if stdev is not None and mean else None
    return Statistics(len(values), mean, stdev, min(values), max(values), cv)
