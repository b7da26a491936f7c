"""The bands of golden curves, from trainings that compute the same in several ways. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cases.golden_trainings import REFERENCE, ROUNDED, SPLIT, WAYS, Trainings, Way
from flagperf.contract.golden import NUMBERS, Curve

FACTOR = 10.0  # a band is so many times the largest deviation of the trainings
ROUNDING = 5e-6  # share of a value by which a band is wider: about forty roundings in fp32
METRIC = 0.02  # share of a metric that a band has at least: a metric counts samples, a rounding may turn a sample over
OTHER_SPLIT = "this split computes something else"
SAME = 1e-5  # share by which first loss and gradient norm of another split may differ and still be the same mathematics


def bands(trainings: Trainings) -> dict[str, Any]:
    """Precision → how far a correct training may lie from the curve, from the trainings of this precision and fp32."""
    reference, counting = trainings[REFERENCE], dict(same_mathematics(trainings))
    made = {}
    for precision in ("fp32", *(way.precision for way in ROUNDED)):
        others = {way: curve for way, curve in counting.items() if way.precision in ("fp32", precision)}
        if any(way.precision == precision for way in others):
            made[precision] = as_lists(band(reference, list(others.values())), 3)
    return made


def band(curve: Curve, others: Sequence[Curve]) -> Curve:
    """The growing envelope of the deviations of some trainings, times FACTOR."""

    def widths(name: str) -> Iterator[float]:
        largest = 0.0
        for step, value in enumerate(getattr(curve, name)):
            largest = max([largest, *(abs(getattr(other, name)[step] - value) for other in others)])
            yield FACTOR * largest + ROUNDING * abs(value)

    metrics = {
        key: max([METRIC * abs(value), *(FACTOR * abs(other.metrics[key] - value) for other in others)])
        for key, value in curve.metrics.items()
        if value
    }
    return Curve(list(widths("loss")), list(widths("grad_norm")), metrics)


def widths(trainings: Trainings) -> list[float]:
    """Width of the loss's band in fp32 at each step, as a share of the loss."""
    curve = trainings[REFERENCE]
    others = [other for way, other in same_mathematics(trainings) if way.precision == "fp32"]
    return [width / max(abs(loss), 1e-12) for width, loss in zip(band(curve, others).loss, curve.loss)]


def same_mathematics(trainings: Trainings) -> Iterator[tuple[Way, Curve]]:
    """The trainings that count: all but those whose split changes what is computed, such as under batch norm."""
    for way, curve in trainings.items():
        if way != SPLIT or _begins_alike(trainings[REFERENCE], curve):
            yield way, curve


def _begins_alike(reference: Curve, curve: Curve) -> bool:
    pairs = [(getattr(reference, name)[0], getattr(curve, name)[0]) for name in NUMBERS]
    return all(abs(value - expected) <= SAME * abs(expected) for expected, value in pairs)


def deviations(trainings: Trainings) -> dict[str, Any]:
    """Each training with its largest relative deviation of loss and gradient norm; or that it does not count."""
    reference, counting = trainings[REFERENCE], dict(same_mathematics(trainings))
    return {
        way.title: _largest(reference, counting[way]) if way in counting else OTHER_SPLIT
        for way in WAYS[1:]
        if way in trainings
    }


def _largest(reference: Curve, curve: Curve) -> Mapping[str, float]:
    pairs = {name: zip(getattr(reference, name), getattr(curve, name)) for name in NUMBERS}
    return {
        name: rounded(max(abs(value - expected) / max(abs(expected), 1e-12) for expected, value in pair), 3)
        for name, pair in pairs.items()
    }


def as_lists(curve: Curve, digits: int) -> dict[str, Any]:
    """A curve as plain data, rounded to so many digits. A metric that is still 0 tells nothing and has no band."""
    lists = {name: [rounded(value, digits) for value in getattr(curve, name)] for name in NUMBERS}
    return {**lists, "metrics": {key: rounded(value, digits) for key, value in curve.metrics.items() if value}}


def rounded(value: float, digits: int) -> float:
    """A number with so many digits."""
    return float(f"{value:.{digits}g}")
