"""Jobs of several runs → the pairs that are held against each other, and the comparison of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flagperf.compare.estimate import Spread, estimate, word
from flagperf.compare.likeness import check_alike, differences
from flagperf.compare.values import Comparison, Figure
from flagperf.contract.leaves import leaves
from flagperf.contract.records import Summary
from flagperf.errors import ConfigError
from flagperf.results.summary import FIGURES, STEPS, metric, per_round, usable

TIME = "e2e_time"
LOWER_IS_BETTER = (TIME, "peak_memory", STEPS)  # and metrics whose target says so
UNITS = {"e2e_time": "s", "peak_memory": "GiB", STEPS: "steps"}


@dataclass(frozen=True)
class NamedJob:
    """A job and where it is from."""

    run: str  # folder
    summary: Summary

    @property
    def name(self) -> str:
        return str(Path(self.run) / self.summary.name)


@dataclass(frozen=True)
class Pairs:
    """Which jobs are held against each other, and which have no partner."""

    pairs: tuple[tuple[NamedJob, NamedJob], ...]
    alone: tuple[str, ...]


def pair_runs(runs: Sequence[Sequence[NamedJob]]) -> Pairs:
    """Each job of the first run with that of every other run which has its place.

    The only jobs of two runs belong together. Of several, those of one case, scale and sweep do; a case that is there
    once in each run needs no more.
    """
    base, pairs, used = runs[0], [], set()
    for other in runs[1:]:
        for job in base:
            partner = other[0] if len(base) == len(other) == 1 else _partner(job, base, other)
            if partner:
                pairs.append((job, partner))
                used |= {job.name, partner.name}
    every = [job.name for run in runs for job in run]
    return Pairs(tuple(pairs), tuple(name for name in every if name not in used))


def _partner(job: NamedJob, base: Sequence[NamedJob], other: Sequence[NamedJob]) -> NamedJob | None:
    for place in (_case, _place):
        mine = [one for one in base if place(one) == place(job)]
        theirs = [one for one in other if place(one) == place(job)]
        if len(mine) == len(theirs) == 1:
            return theirs[0]
    return None


def _case(job: NamedJob) -> tuple[object, ...]:
    return job.summary.identity.case, job.summary.identity.size


def _place(job: NamedJob) -> tuple[object, ...]:
    """Case, scale and the values of a sweep."""
    identity = job.summary.identity
    swept = job.summary.results[0].sweep if job.summary.results else {}
    return *_case(job), identity.nnodes, identity.nproc, *sorted(swept.items())


def pair_by(jobs: Sequence[NamedJob], key: str) -> Pairs:
    """Each job with those of its case that have another value of `key`; the value that comes first is the base.

    Raises:
        ConfigError: no job has the key.
    """
    values = {job.name: value_of(job, key) for job in jobs}
    if not any(value is not None for value in values.values()):
        advice = "give a key of the configuration, such as nproc, vendor.name or a swept one"
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
    """The value of a dotted key of the configuration, of `scale`, or the name of what a group chose."""
    flat = leaves(job.summary.config)
    if key == "scale":
        return job.summary.identity.scale
    found = flat.get(key, flat.get(f"{key}.name"))
    return None if found is None else str(found)


def compare(
    base: NamedJob, other: NamedJob, *, margin: float, across: Collection[str] = (), earlier: Sequence[Summary] = ()
) -> Comparison:
    """Hold two jobs against each other.

    Args:
        margin: so small a difference is none, as a share of the base.
        across: keys in which they may differ although their figures then say less.
        earlier: jobs from whose rounds it is known how much rounds vary.

    Raises:
        ConfigError: they do not compare, or one has no round that counts.
    """
    for job in (base, other):
        if not usable(job.summary.results):
            advice = f"flagperf report {job.run} says why"
            raise ConfigError("this job has no round that counts", where=job.name, given="INVALID", advice=advice)
    check_alike(base.summary, other.summary, (base.name, other.name), across)
    ends = _end(base.summary), _end(other.summary)
    found = tuple(
        figure
        for figure in _figures(base.summary, other.summary, margin, earlier)
        if figure.name != TIME or ends[0] == ends[1]
    )
    left_out = "" if ends[0] == ends[1] else f"{TIME} is not compared: {_apart(*ends)}."
    differs = differences(base.summary, other.summary)
    return Comparison(base.summary, other.summary, base.name, other.name, found, differs, left_out)


def _end(summary: Summary) -> dict[str, str]:
    """What decides how long a training takes, beside its speed: its limit, what ended it, where it began."""
    rounds = usable(summary.results)
    said = {
        "max_steps": [summary.config.get("max_steps")],
        "stop reason": [result.values.get("stop_reason") for result in rounds],
        "resume": [result.values.get("resumed_from_step") for result in rounds],
    }
    return {name: ", ".join(sorted({str(one) for one in values if one})) or "none" for name, values in said.items()}


def _apart(base: Mapping[str, str], other: Mapping[str, str]) -> str:
    return "; ".join(f"{name} is {base[name]} and {other[name]}" for name in base if base[name] != other[name])


def _figures(base: Summary, other: Summary, margin: float, earlier: Sequence[Summary]) -> list[Figure]:
    left, right = per_round(usable(base.results)), per_round(usable(other.results))
    before = [per_round(usable(job.results)) for job in earlier]
    goal = base.results[0].target
    found = []
    for name in (*FIGURES, metric(base), STEPS):
        if name is None or name not in left or name not in right or min(*left[name], *right[name]) <= 0:
            continue
        known = sum((_spread(job.get(name, [])) for job in before), Spread())
        ratio = estimate(left[name], right[name], known)
        higher = goal.direction == "higher" if goal and name == metric(base) else name not in LOWER_IS_BETTER
        unit = goal.unit or "" if goal and name == metric(base) else UNITS.get(name, base.identity.throughput_unit)
        unit = "" if name.startswith("mfu") else unit
        of_base, of_other = base.statistics[name], other.statistics[name]
        is_equal = sorted(left[name]) == sorted(right[name])
        said = "same" if is_equal else word(ratio, higher, margin)
        found.append(Figure(name, unit, higher, of_base, of_other, ratio, said))
    return found


def _spread(rounds: Sequence[float]) -> Spread:
    return Spread.of(rounds) if len(rounds) > 1 and min(rounds) > 0 else Spread()
