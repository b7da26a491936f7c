"""Golden curves: what a case computes in its first steps, and how far correct implementations lie from these values.

A file conf/golden/<case>.yaml has the losses, gradient norms and metrics of trainings in fp32 on a CPU, and for each
precision a band: how far a value may lie from the curve. docs/numerics.md explains both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from flagperf.contract.build import build
from flagperf.contract.perflog import Event
from flagperf.contract.regular import read_yaml
from flagperf.errors import ConfigError

NUMBERS = ("loss", "grad_norm")  # of each step
OF_ALL = (
    3.0  # the root mean square of the distances of all steps counts so many times: small errors of each step add up
)
NO_METRIC = ("step", "samples", "time")  # fields of EVALUATE beside the metrics


@dataclass(frozen=True)
class Curve:
    """What a training logged, or how wide a band is there: a number a step, and one a metric."""

    loss: Sequence[float]
    grad_norm: Sequence[float]
    metrics: Mapping[str, float]

    @classmethod
    def of(cls, events: Sequence[Event]) -> Curve:
        """The curve of a training from the events of a rank."""
        steps = [event.value for event in events if event.event == "STEP_END"]
        evaluated = [event.value for event in events if event.event == "EVALUATE"]
        metrics = {key: value for key, value in (evaluated[-1] if evaluated else {}).items() if key not in NO_METRIC}
        norms = [step["grad_norm"] for step in steps if step.get("grad_norm") is not None]
        return cls([step["loss"] for step in steps], norms, metrics)

    def points(self) -> Iterator[tuple[str, int, float]]:
        """Name, step and value of each number; the metrics are those of the last step."""
        for name in NUMBERS:
            for step, value in enumerate(getattr(self, name), 1):
                yield name, step, value
        for name, value in self.metrics.items():  # some are named as a number of a step
            yield (f"{name} of the evaluation" if name in NUMBERS else name), len(self.loss), value


@dataclass(frozen=True)
class Golden:
    """A curve of a case, with its bands."""

    case: str
    revision: int
    name: str  # plain, or dropout
    overrides: Sequence[str]  # that a training sets to be comparable
    identity: str  # of the configuration, as `identity_of` gives it
    curve: Curve
    bands: Mapping[str, Curve]  # precision → how far each number may lie from the curve


class Distance(NamedTuple):
    """How far a number of a training lies from the curve."""

    ratio: float  # in widths of the band
    name: str
    step: int

    def __str__(self) -> str:
        return f"{self.ratio:.3g} times the band ({self.name}, step {self.step})"


@dataclass(frozen=True)
class Check:
    """A training beside a golden curve."""

    golden: Golden
    precision: str
    measured: Curve

    @property
    def band(self) -> Curve:
        """The band of the precision."""
        return self.golden.bands[self.precision]

    @property
    def distances(self) -> list[Distance]:
        """The distance of each number from the curve, in the order of steps; infinite where there is no number.

        After the last step follow the metrics, and the distances of all steps together.
        """
        widths = {(name, step): width for name, step, width in self.band.points()}
        values = {(name, step): value for name, step, value in self.measured.points()}
        distances = [
            Distance(_ratio(abs(values.get((name, step), math.nan) - expected), widths[name, step]), name, step)
            for name, step, expected in self.golden.curve.points()
            if name != "grad_norm" or self.measured.grad_norm  # some frameworks log none
        ]
        distances += [_of_all(name, distances) for name in NUMBERS if any(there.name == name for there in distances)]
        return sorted(distances, key=lambda distance: (distance.step, distance.name not in NUMBERS))

    @property
    def largest(self) -> Distance:
        """The distance of the number that lies furthest away; the first of equal ones."""
        return max(self.distances, key=lambda distance: distance.ratio)

    @property
    def first_outside(self) -> Distance | None:
        """The first number outside the band; None: each number lies inside."""
        return next((distance for distance in self.distances if distance.ratio > 1), None)

    @property
    def inside(self) -> bool:
        """Whether each number lies within the band."""
        return self.first_outside is None

    @property
    def verdict(self) -> str:
        """The verdict in a sentence."""
        first = self.first_outside
        if first is None:
            return f"inside the band of {self.precision}: {len(self.golden.curve.loss)} steps, at most {self.largest}"
        began = f"{first.name} is the first outside, by {first.ratio:.3g} times the band"
        return f"outside the band of {self.precision} from step {first.step} on: {began}; at most {self.largest}"


def _of_all(name: str, distances: Sequence[Distance]) -> Distance:
    """The distance of all steps together of the loss or the gradient norm."""
    ratios = [there.ratio for there in distances if there.name == name]
    mean_square = sum(ratio**2 for ratio in ratios) / len(ratios)
    return Distance(OF_ALL * math.sqrt(mean_square), f"{name} of all steps", len(ratios))


def _ratio(deviation: float, width: float) -> float:
    if math.isnan(deviation):
        return math.inf
    return deviation / width if width else (math.inf if deviation else 0.0)


def read(path: Path) -> list[Golden]:
    """The curves of a file.

    Raises:
        ConfigError: the file cannot be read, or has another form.
    """
    try:
        content = read_yaml(path)
        curves = [_golden(content, name, curve, str(path)) for name, curve in content["curves"].items()]
        if not curves:
            raise ValueError("no curve")
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        problem = f"this is no file of golden curves: {type(error).__name__}: {error}"
        raise ConfigError(problem, where=str(path), advice="docs/numerics.md shows the form") from None
    return curves


def _golden(content: Mapping[str, Any], name: str, curve: Mapping[str, Any], where: str) -> Golden:
    """A curve of a file. Each band has numbers for the same steps as the curve."""
    values = {
        **{key: content[key] for key in ("case", "revision")},
        **{key: curve[key] for key in ("overrides", "identity")},
        "name": _name(name),
        "curve": _curve(curve),
        "bands": {precision: _curve(band) for precision, band in curve["bands"].items()},
    }
    golden = build(Golden, values, f"curves.{name}", lambda _: where)
    numbers = _numbers(golden.curve)
    if not golden.curve.loss or any(_numbers(band) != numbers for band in golden.bands.values()):
        raise ValueError(f"the curve {name} has no loss, or a band of other numbers")
    return golden


def _numbers(curve: Curve) -> set[tuple[str, int]]:
    """Name and step of each number of a curve."""
    return {(name, step) for name, step, _ in curve.points()}


def _name(name: str) -> str:
    """The name of a curve, which is also the name of files."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"{name!r} is no name of a curve")
    return name


def _curve(node: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: node[field.name] for field in fields(Curve)}
