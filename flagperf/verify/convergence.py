"""MLPerf's test of reference convergence points. This is a second implementation of the rule of docs/numerics.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from flagperf.verify.mesh import samples_of_step

LEVEL = 0.05


class Known(NamedTuple):
    """A batch size of the reference."""

    batch: float
    mean: float
    deviation: float
    runs: int


def too_fast(config: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """SUSPECT with a reason, where the rounds of a job needed too few samples. `rounds`: contents of result.json."""
    reference = config.get("reference_points")
    counted = [
        float((round_["target_reached"] and (round_.get("values") or {}).get("global_samples")) or math.inf)
        for round_ in rounds
        if round_.get("verdict") in ("VALID", "SUSPECT") and round_.get("target_reached") is not None
    ]
    if not (reference and counted and config.get("division") == "closed"):
        return
    samples, batch = _middle(counted), samples_of_step(config)
    envelope = _envelope([_known(point) for point in reference["points"]])
    index = next((n for n, known in enumerate(envelope) if known.batch >= batch), None)
    if index is None or samples[-1] == math.inf or batch < envelope[0].batch:
        return
    known = envelope[index]
    if known.batch != batch:
        known = _on_line(envelope[index - 1], known, batch, 2 * reference["rounds"])
    mean = statistics.fmean(samples)
    if mean < known.mean and _chance(mean, len(samples), known) < LEVEL:
        yield "SUSPECT", [f"{mean:.6g} samples to the target, the reference needed {known.mean:.6g}"]


def _chance(mean: float, count: int, known: Known) -> float:
    """One-sided p-value of Student's t-test with the reference's deviation on both sides."""
    if not known.deviation:
        return 0.0
    from scipy.stats import ttest_ind_from_stats

    both = ttest_ind_from_stats(mean, known.deviation, count, known.mean, known.deviation, known.runs)
    return float(both.pvalue) / 2


def _middle(values: Sequence[float]) -> list[float]:
    """Sorted; of three and more without the first and the last."""
    values = sorted(values)
    return values[1 : len(values) - 1] if len(values) >= 3 else values


def _known(point: Mapping[str, Any]) -> Known:
    middle = _middle(point["samples"])
    return Known(point["batch"], statistics.fmean(middle), statistics.pstdev(point["samples"]), len(middle))


def _on_line(left: Known, right: Known, batch: float, count: int) -> Known:
    share = (batch - left.batch) / (right.batch - left.batch)
    mean, deviation = ((1 - share) * left[n] + share * right[n] for n in (1, 2))
    return Known(batch, mean, deviation, count)


def _envelope(points: Sequence[Known]) -> list[Known]:
    """The points from the fastest on, without those that lie above the line between their neighbours."""
    fastest = min(points, key=lambda known: (known.mean, known.batch))
    kept: list[Known] = []
    waiting = sorted(known for known in points if known.batch >= fastest.batch)
    while waiting:
        known = waiting.pop(0)
        above = kept and waiting and known.mean > _on_line(kept[-1], waiting[0], known.batch, 0).mean
        kept += [] if above else [known]
    return kept
