"""The statistics of a job over its rounds, from the figures of the rounds that count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flagperf.verify.of_verdict import VERDICTS, row_of_verdict
from flagperf.verify.values import Row, held, is_number, same

ROUNDING = 1e-9  # share of the mean: the deviation of equal numbers need not come out as 0
MAX_CV = 0.05  # of runs before there was the key
STATISTICS = ("n", "mean", "stdev", "min", "max", "cv")
USED = ("VALID", "SUSPECT")
RATES = ("p_whole", "p_train", "p_core")
JUDGED = ("schema", "verdict", "reasons", "notes")  # a later report may say more; the verdict has rows of its own


def rows_of_rounds(place: str, summary: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """A row for each statistic of summary.json; `rounds` are the result.json of each round."""
    recorded = summary.get("results") or []
    for number, (one, other) in enumerate(zip(recorded, rounds, strict=False), start=1):
        if other.get("schema") != summary.get("schema"):  # it was summed up by a later version
            continue
        how = f"result.json of round{number}; summary.json has every round too"
        for key, left, right in _differing(one, other):
            if key not in JUDGED:
                yield Row(place, f"round {number}: {key}", left, right, "differs", how)
    used = [one for one in rounds if one.get("verdict") in USED]
    for figure, stated in (summary.get("statistics") or {}).items():
        values = [value for one in used if is_number(value := _value(one, figure))]
        yield from _of_figure(place, figure, stated, values)


def rows_of_verdicts(
    place: str, summary: Mapping[str, Any], config: Mapping[str, Any], found: Sequence[tuple[str, list[str]]]
) -> Iterator[Row]:
    """Rows for the verdict of the job and of each round in summary.json; `found`: those of its rounds, with reasons."""
    for number, (one, (verdict, why)) in enumerate(zip(summary.get("results") or [], found, strict=False), start=1):
        row = row_of_verdict(place, one, verdict, why, f"round {number}: verdict")
        yield from [row] if row.answer == "differs" else []
    if "verdict" not in summary:
        return
    reasons = [reason for one in (summary, *(summary.get("results") or [])) for reason in one.get("reasons") or ()]
    most = max((_spread(summary, name) for name in RATES), default=0.0)
    of_job = [("SUSPECT", [f"its throughput varies by {most:.3g}"])] if most > config.get("max_cv", MAX_CV) else []
    verdict, why = max((*found, *of_job), key=lambda one: VERDICTS.index(one[0]), default=("INVALID", ["no round"]))
    yield row_of_verdict(place, {"verdict": summary["verdict"], "reasons": reasons}, verdict, why)


def _spread(summary: Mapping[str, Any], figure: str) -> float:
    """Coefficient of variation of a figure, which has a row of its own."""
    return (summary.get("statistics") or {}).get(figure, {}).get("cv") or 0.0


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted key, and both values, of what differs."""
    for key in sorted(one.keys() & other.keys() if not within else one.keys() | other.keys()):
        left, right = one.get(key), other.get(key)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            yield from _differing(left, right, f"{within}{key}.")
        elif not same(left, right, (0.0, 0.0)):
            yield f"{within}{key}", left, right


def _of_figure(place: str, figure: str, stated: Mapping[str, Any], values: Sequence[float]) -> Iterator[Row]:
    """A row for the mean where all statistics of a figure agree, else for each that differs."""
    found = _statistics(values) if values else {}
    how = f"rounds that count: {len(values)}"
    rows = []
    for key in STATISTICS:
        close = ROUNDING if key == "cv" else ROUNDING * abs(found.get("mean", 0.0))
        rows.append(held(place, f"{figure} {key}", stated.get(key), found.get(key), how, (ROUNDING, close)))
    differing = [row for row in rows if row.answer == "differs"]
    mean = rows[STATISTICS.index("mean")]
    yield from differing or [replace(mean, how=f"{how}; n, stdev, min, max and cv too")]


def _value(result: Mapping[str, Any], figure: str) -> Any:
    values = result.get("values") or {}
    if figure == "steps_to_target":
        return values.get("global_steps") if result.get("target_reached") else None
    return values.get(figure)


def _statistics(values: Sequence[float]) -> dict[str, Any]:
    """n, mean, sample standard deviation, min, max and coefficient of variation of at least one value."""
    count = len(values)
    mean = math.fsum(values) / count
    finite = count > 1 and all(map(math.isfinite, values))
    stdev = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)) if finite else None
    return {
        "n": count,
        "mean": mean,
        "stdev": stdev,
        "min": min(values),
        "max": max(values),
        "cv": stdev / abs(mean) if stdev is not None and mean else None,
    }
