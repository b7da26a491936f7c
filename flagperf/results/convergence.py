"""MLPerf's test of reference convergence points (RCP): did a job need as many samples as correct trainings need?

A reference point is a batch size of the whole job with the samples that trainings with different seeds needed until
they reached the target. The rules are those of github.com/mlcommons/logging, mlperf_logging/rcp_checker; MLPerf allows
no job whose mean is smaller than a one-sided t-test at 5 % lets it be. Beside MLPerf's rules: a job may have any number
of rounds. Its mean may also be larger than the test expects and than each training of the reference, which is a remark.
docs/numerics.md explains all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from flagperf.contract.records import Convergence, Result
from flagperf.predict.times import mesh_of

Outcome = Literal["faster", "as expected", "slower", "no point"]
ALPHA = 0.05  # share of correct jobs that the test calls too fast
POWER = 0.8  # share of the jobs in which a test detects a difference of the stated size
MORE = 5  # rounds that the advice adds


@dataclass(frozen=True)
class Point:
    """Samples to the target at a batch size: statistics of a reference."""

    batch: int  # samples of an optimizer step of the whole job
    mean: float  # without the least and the largest number
    deviation: float  # standard deviation of all
    runs: int  # that count for the test
    rounds: int  # of a submission: MLPerf asks for half as many as the reference has
    largest: float  # number of a correct training

    @classmethod
    def of(cls, batch: int, samples: Sequence[float], rounds: int) -> Point:
        """The point of the trainings of a reference."""
        kept = without_extremes(samples)
        return cls(batch, statistics.fmean(kept), statistics.pstdev(samples), len(kept), rounds, max(samples))

    def between(self, other: Point, batch: int) -> Point:
        """The point that lies on the line to a larger batch."""
        share = (batch - self.batch) / (other.batch - self.batch)
        ends = (self.mean, other.mean), (self.deviation, other.deviation), (self.largest, other.largest)
        mean, deviation, largest = (left + share * (right - left) for left, right in ends)
        return Point(batch, mean, deviation, 2 * self.rounds, self.rounds, largest)

    def reach(self, rounds: int) -> float:
        """How far the mean of so many rounds may lie from the mean of the reference, by the t-test."""
        if not self.deviation:
            return 0.0
        from scipy.special import stdtrit  # the t distribution; scipy.stats takes a second longer to import

        quantile = float(stdtrit(rounds + self.runs - 2, 1 - ALPHA))
        return quantile * self.deviation * math.sqrt(1 / rounds + 1 / self.runs)

    def detects(self, rounds: int) -> float:
        """The difference that a job of so many rounds would show, as a share of the mean."""
        kept = len(without_extremes(range(rounds)))
        return detectable(self.deviation, kept, self.runs, kept + self.runs - 2, ALPHA) / self.mean


def detectable(deviation: float, rounds: int, others: int, freedom: int, level: float) -> float:
    """The difference of two means that a t-test detects with the probability POWER.

    The sum of both quantiles is the usual approximation (Cohen: Statistical Power Analysis, 2.4).

    Args:
        deviation: standard deviation of the rounds of both sides.
        rounds, others: number of rounds of the sides.
        freedom: degrees of freedom of the deviation.
        level: of the test, on the side of the difference.
    """
    from scipy.special import stdtrit

    quantiles = float(stdtrit(freedom, 1 - level)) + float(stdtrit(freedom, POWER))
    return quantiles * deviation * math.sqrt(1 / rounds + 1 / others)


def without_extremes(values: Sequence[float]) -> list[float]:
    """The values in ascending order, of three and more without the least and the largest."""
    ordered = sorted(values)
    return ordered[1:-1] if len(ordered) > 2 else ordered


def pruned(points: Sequence[Point]) -> list[Point]:
    """The points that count, by batch: none slower than a larger batch, or than its neighbours tell."""
    ordered = sorted(points, key=lambda point: point.batch)
    fastest = min(ordered, key=lambda point: point.mean)
    kept = [point for point in ordered if point.batch >= fastest.batch]
    index = 1
    while index < len(kept) - 1:
        before, point, after = kept[index - 1 : index + 2]
        if point.mean > before.between(after, point.batch).mean:
            del kept[index]
            index -= 1  # as MLPerf's checker does: it does not check the point before again
        index += 1
    return kept


def point_at(points: Sequence[Point], batch: int) -> Point | None:
    """The point of a batch size; that of the smallest batch for a smaller one; None: the batch is larger than all."""
    kept = pruned(points)
    if batch <= kept[0].batch:
        return kept[0]
    for left, right in pairwise(kept):
        if left.batch < batch < right.batch:
            return left.between(right, batch)
    return next((point for point in kept if point.batch == batch), None)


def held_against(points: Sequence[Point], batch: int, samples: Sequence[float], source: str) -> Convergence | None:
    """The answer of the test.

    Args:
        points: of the reference, at least one.
        batch: samples of an optimizer step of the job.
        samples: that each round needed until the target; infinite where a round missed the target.
        source: of the points, in words.

    Returns:
        None where too many rounds missed the target: more than one of three and more rounds, or any of fewer.
    """
    kept, point = without_extremes(samples), point_at(points, batch)
    if not kept or math.inf in kept:
        return None
    mean = statistics.fmean(kept)
    if point is None:
        return Convergence("no point", batch, len(samples), mean, source)
    reach = point.reach(len(kept))
    least, most = point.mean - reach, max(point.mean + reach, point.largest)
    outcome: Outcome = "faster" if mean < least else "slower" if mean > most else "as expected"
    if outcome == "faster" and batch < point.batch:  # fewer samples are normal there: MLPerf asks for a point
        outcome = "no point"
    detects = point.detects(len(samples)), point.detects(len(samples) + MORE)
    return Convergence(outcome, batch, len(samples), mean, source, point.mean, least, most, *detects)


# ---------------------------------------------------------------- jobs


def convergence_of(results: Sequence[Result], config: Mapping[str, Any]) -> Convergence | None:
    """The answer for the rounds of a job; None: the test does not apply."""
    reference, rounds = config.get("reference_points"), [*_comparable(results, config)]
    if not reference or not rounds:
        return None
    points = [Point.of(entry["batch"], entry["samples"], reference["rounds"]) for entry in reference["points"]]
    return held_against(points, batch_of(config), [samples_to_target(result) for result in rounds], reference["source"])


def batch_of(config: Mapping[str, Any]) -> int:
    """Samples of an optimizer step of the whole job."""
    return int(config["train_batch_size"] * config["gradient_accumulation_steps"] * mesh_of(config).data_ranks)


def samples_to_target(result: Result) -> float:
    """Samples of the whole job until the target; infinite where the round missed the target."""
    samples = result.values.get("global_samples")
    return float(samples) if result.target_reached and samples else math.inf


def _comparable(results: Sequence[Result], config: Mapping[str, Any]) -> Iterator[Result]:
    """The rounds of a closed job that count, and whose training could reach the target."""
    if config.get("division") != "closed":
        return
    for result in results:
        if result.verdict in ("VALID", "SUSPECT") and result.target_reached is not None:
            yield result


def sentence(convergence: Convergence) -> str:
    """The answer in words."""
    rounds = "its round" if convergence.rounds == 1 else f"its {convergence.rounds} rounds"
    needed = f"{rounds} needed {convergence.mean:.6g} samples to the target"
    batch = f"a batch of {convergence.batch} ({convergence.source})"
    if convergence.expected is None:
        return f"{needed}; there is no reference for {batch}"
    reference = f"the reference needed {convergence.expected:.6g} with {batch}"
    if convergence.outcome == "as expected":
        return f"{needed}, as expected: {reference}{advice(convergence)}"
    if convergence.outcome == "faster":
        return (
            f"{needed}, faster than expected: {reference}, and MLPerf's test expects at least {convergence.least:.6g}"
        )
    return f"{needed}, slower than expected: {reference}, and at most {convergence.most:.6g} in a correct training"


def advice(convergence: Convergence) -> str:
    """How small a difference the rounds would show, and more rounds; "" where a reference has no spread."""
    if not convergence.detects or not convergence.detects_with_more:
        return ""
    now, more = map(two_digits, (convergence.detects, convergence.detects_with_more))
    return f". A difference of {now} would be detected; {MORE} more rounds would detect {more}"


def two_digits(share: float) -> str:
    """A share in percent with two digits, without an exponent: 3.27 → "330 %"."""
    return f"{float(f'{100 * share:.2g}'):.6g} %"
