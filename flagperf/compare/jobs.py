"""Jobs of several runs → pairs of jobs, and the comparison of each pair."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flagperf.compare.estimate import ENOUGH_ROUNDS, Spread, estimate, word
from flagperf.compare.likeness import check_alike, differences
from flagperf.compare.values import Comparison, Figure
from flagperf.contract.leaves import leaves
from flagperf.contract.records import Convergence, Summary
from flagperf.errors import ConfigError
from flagperf.results.convergence import Point, batch_of, held_against, samples_to_target
from flagperf.results.summary import FIGURES, STEPS, UTILISATIONS, metric, per_round, usable

TIME = "e2e_time"
LOWER_IS_BETTER = (TIME, "peak_memory", STEPS)  # and metrics whose target says so
UNITS = {"e2e_time": "s", "peak_memory": "GiB", STEPS: "steps"}


@dataclass(frozen=True)
class NamedJob:
    """A job and the folder of its run."""

    run: str  # folder
    summary: Summary

    @property
    def name(self) -> str:
        """The job's folder, as the command line names its run."""
        return str(Path(self.run) / self.summary.name)


@dataclass(frozen=True)
class Pairs:
    """The pairs of jobs to compare, and the names of the jobs without a partner."""

    pairs: tuple[tuple[NamedJob, NamedJob], ...]
    unpaired: tuple[str, ...]


def pair_runs(runs: Sequence[Sequence[NamedJob]]) -> Pairs:
    """Each job of the first run with its partner in every other run.

    Two runs with a single job each make a pair. Otherwise partners have the same case and size where each run has one
    such job, else the same case, scale and values of a sweep.
    """
    base, pairs, used = runs[0], [], set()
    for other in runs[1:]:
        for job in base:
            partner = other[0] if len(base) == len(other) == 1 else _partner(job, base, other)
            if partner:
                pairs.append((job, partner))
                used |= {job.name, partner.name}
    names = [job.name for run in runs for job in run]
    return Pairs(tuple(pairs), tuple(name for name in names if name not in used))


def _partner(job: NamedJob, base: Sequence[NamedJob], other: Sequence[NamedJob]) -> NamedJob | None:
    for key in (_case, _scale_and_sweep):
        base_matches = [candidate for candidate in base if key(candidate) == key(job)]
        matches = [candidate for candidate in other if key(candidate) == key(job)]
        if len(base_matches) == len(matches) == 1:
            return matches[0]
    return None


def _case(job: NamedJob) -> tuple[object, ...]:
    return job.summary.identity.case, job.summary.identity.size


def _scale_and_sweep(job: NamedJob) -> tuple[object, ...]:
    """Case, scale and the values of a sweep."""
    identity = job.summary.identity
    swept = job.summary.results[0].sweep if job.summary.results else {}
    return *_case(job), identity.nnodes, identity.nproc, *sorted(swept.items())


def pair_by(jobs: Sequence[NamedJob], key: str) -> Pairs:
    """Each job with the jobs of its case that have another value of `key`. The first job is the base.

    Raises:
        ConfigError: no job has the key.
    """
    values = {job.name: value_of(job, key) for job in jobs}
    if not any(value is not None for value in values.values()):
        advice = "give a key of the configuration, such as nproc, vendor.name or a swept key"
        raise ConfigError("no job has this key", key="by", given=key, advice=advice)
    pairs, used = [], set()
    for case in dict.fromkeys(map(_case, jobs)):
        first, *others = (job for job in jobs if _case(job) == case)
        for other in others:
            if values[other.name] != values[first.name]:
                pairs.append((first, other))
                used |= {first.name, other.name}
    return Pairs(tuple(pairs), tuple(job.name for job in jobs if job.name not in used))


def value_of(job: NamedJob, key: str) -> str | None:
    """The value of a dotted key of the configuration, of `scale`, or the choice of a group; None: no such key."""
    flat = leaves(job.summary.config)
    if key == "scale":
        return job.summary.identity.scale
    value = flat.get(key, flat.get(f"{key}.name"))
    return None if value is None else str(value)


def compare(
    base: NamedJob, other: NamedJob, *, margin: float, across: Collection[str] = (), earlier: Sequence[Summary] = ()
) -> Comparison:
    """Compare two jobs.

    Args:
        margin: smaller differences do not count, as a share of the base.
        across: keys of `likeness.MUST` in which the jobs may differ.
        earlier: jobs whose rounds show how much rounds vary.

    Raises:
        ConfigError: the jobs do not compare, or a job has no round that counts.
    """
    for job in (base, other):
        if not usable(job.summary.results):
            advice = f"flagperf report {job.run} says why"
            raise ConfigError("this job has no round that counts", where=job.name, given="INVALID", advice=advice)
    check_alike(base.summary, other.summary, (base.name, other.name), across)
    ends = _end(base.summary), _end(other.summary)
    figures = tuple(
        figure
        for figure in _figures(base.summary, other.summary, margin, earlier)
        if figure.name != TIME or ends[0] == ends[1]
    )
    left_out = "" if ends[0] == ends[1] else f"{TIME} is not compared: {_apart(*ends)}."
    differs = differences(base.summary, other.summary)
    names, against = (base.name, other.name), against_base(base, other)
    return Comparison(base.summary, other.summary, *names, figures, differs, left_out, against)


def against_base(base: NamedJob, other: NamedJob) -> Convergence | None:
    """MLPerf's test of reference convergence points, with the rounds of the base as the reference.

    Returns:
        None where the base has too few rounds that reached the target, or the batches of the whole jobs differ.
    """
    samples = [[*map(samples_to_target, usable(job.summary.results))] for job in (base, other)]
    if len(samples[0]) < ENOUGH_ROUNDS or math.inf in samples[0]:
        return None
    batch, batch_of_other = (batch_of(job.summary.config) for job in (base, other))
    if batch != batch_of_other:
        return None
    return held_against([Point.of(batch, samples[0], len(samples[0]))], batch, samples[1], base.name)


def _end(summary: Summary) -> dict[str, str]:
    """The facts that decide how long a training takes, beside its speed: limit, stop reason, resumed step."""
    rounds = usable(summary.results)
    facts = {
        "max_steps": [summary.config.get("max_steps")],
        "stop reason": [result.values.get("stop_reason") for result in rounds],
        "resume": [result.values.get("resumed_from_step") for result in rounds],
    }
    texts = {name: sorted({str(value) for value in values if value}) for name, values in facts.items()}
    return {name: ", ".join(values) or "none" for name, values in texts.items()}


def _apart(base: Mapping[str, str], other: Mapping[str, str]) -> str:
    return "; ".join(f"{name} is {base[name]} and {other[name]}" for name in base if base[name] != other[name])


def _figures(base: Summary, other: Summary, margin: float, earlier: Sequence[Summary]) -> list[Figure]:
    base_values, other_values = per_round(usable(base.results)), per_round(usable(other.results))
    earlier_values = [per_round(usable(job.results)) for job in earlier]
    goal = base.results[0].target
    figures = []
    for name in (*FIGURES, metric(base), STEPS):
        if name is None or name not in base_values or name not in other_values:
            continue
        if min(*base_values[name], *other_values[name]) <= 0:
            continue
        spread = sum((_spread(job.get(name, [])) for job in earlier_values), Spread())
        ratio = estimate(base_values[name], other_values[name], spread)
        higher = goal.direction == "higher" if goal and name == metric(base) else name not in LOWER_IS_BETTER
        unit = goal.unit or "" if goal and name == metric(base) else UNITS.get(name, base.identity.throughput_unit)
        unit = "" if name in UTILISATIONS else unit
        of_base, of_other = base.statistics[name], other.statistics[name]
        is_equal = sorted(base_values[name]) == sorted(other_values[name])
        answer = "same" if is_equal else word(ratio, higher, margin)
        figures.append(Figure(name, unit, higher, of_base, of_other, ratio, answer, is_equal))
    return figures


def _spread(rounds: Sequence[float]) -> Spread:
    return Spread.of(rounds) if len(rounds) > 1 and min(rounds) > 0 else Spread()
