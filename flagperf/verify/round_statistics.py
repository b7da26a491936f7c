"""Recomputes the statistics and the verdict of a job from its rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flagperf.verify.convergence import too_fast
from flagperf.verify.values import Row, compare, is_number, same
from flagperf.verify.verdict_rules import VERDICTS, verdict_row

ROUNDING = 1e-9  # share of the mean: rounding errors may give equal numbers a deviation above 0
MAX_CV = 0.05  # for configurations of older versions, which have no key max_cv
STATISTICS = ("n", "mean", "stdev", "min", "max", "cv")
USED = ("VALID", "SUSPECT")
RATES = ("p_whole", "p_train", "p_core")
JUDGED = ("schema", "verdict", "reasons", "notes")  # not compared here: a later version may judge a round again


def statistic_rows(location: str, summary: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """One row for each statistic of summary.json. `rounds` are the contents of the rounds' result.json."""
    recorded = summary.get("results") or []
    for number, (in_summary, result) in enumerate(zip(recorded, rounds, strict=False), start=1):
        if result.get("schema") != summary.get("schema"):  # a later version wrote the summary
            continue
        how = f"result.json of round{number}; summary.json contains every round, too"
        for key, left, right in _differing(in_summary, result):
            if key not in JUDGED:
                yield Row(location, f"round {number}: {key}", left, right, "differs", how)
    used = [result for result in rounds if result.get("verdict") in USED]
    for figure, stated in (summary.get("statistics") or {}).items():
        values = [value for result in used if is_number(value := _value(result, figure))]
        yield from _figure_rows(location, figure, stated, values)


def verdict_rows(
    location: str, summary: Mapping[str, Any], config: Mapping[str, Any], rounds: Sequence[tuple[str, list[str]]]
) -> Iterator[Row]:
    """Rows for the verdicts in summary.json. `rounds` are the recomputed verdicts of the rounds, with reasons."""
    recorded = summary.get("results") or []
    for number, (in_summary, (verdict, why)) in enumerate(zip(recorded, rounds, strict=False), start=1):
        row = verdict_row(location, in_summary, verdict, why, f"round {number}: verdict")
        yield from [row] if row.answer == "differs" else []
    if "verdict" not in summary:
        return
    reasons = [reason for record in (summary, *recorded) for reason in record.get("reasons") or ()]
    most = max((_spread(summary, name) for name in RATES), default=0.0)
    of_job = [("SUSPECT", [f"its throughput varies by {most:.3g}"])] if most > config.get("max_cv", MAX_CV) else []
    of_job += too_fast(config, recorded)
    verdict, why = max((*rounds, *of_job), key=lambda item: VERDICTS.index(item[0]), default=("INVALID", ["no round"]))
    yield verdict_row(location, {"verdict": summary["verdict"], "reasons": reasons}, verdict, why)


def _spread(summary: Mapping[str, Any], figure: str) -> float:
    """The stated coefficient of variation of a figure. Another row compares that coefficient."""
    return (summary.get("statistics") or {}).get(figure, {}).get("cv") or 0.0


def _differing(left: Mapping[str, Any], right: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted key and both values of each difference. At the top, keys that only one side has do not count."""
    for key in sorted(left.keys() | right.keys() if prefix else left.keys() & right.keys()):
        values = left.get(key), right.get(key)
        if isinstance(values[0], Mapping) and isinstance(values[1], Mapping):
            yield from _differing(values[0], values[1], f"{prefix}{key}.")
        elif not same(*values, (0.0, 0.0)):
            yield f"{prefix}{key}", *values


def _figure_rows(location: str, figure: str, stated: Mapping[str, Any], values: Sequence[float]) -> Iterator[Row]:
    """One row for the mean where all statistics of a figure agree, else one row for each difference."""
    computed = _statistics(values) if values else {}
    how = f"rounds that count: {len(values)}"
    rows = []
    for key in STATISTICS:
        close = ROUNDING if key == "cv" else ROUNDING * abs(computed.get("mean", 0.0))
        rows.append(compare(location, f"{figure} {key}", stated.get(key), computed.get(key), how, (ROUNDING, close)))
    differing = [row for row in rows if row.answer == "differs"]
    mean = rows[STATISTICS.index("mean")]
    yield from differing or [replace(mean, how=f"{how}; n, stdev, min, max and cv agree, too")]


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
