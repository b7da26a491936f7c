"""Golden curves: what a case computes in its first steps, and how far correct implementations lie from there.

A file conf/golden/<case>.yaml has the losses, gradient norms and metrics of trainings in fp32 on a CPU, and for each
precision a band: how far a value may lie from the curve. `python -m cases.golden` writes the files from real trainings.
docs/numerics.md explains both.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from flagperf.config.files.search_path import family_of, find
from flagperf.config.schema.keys import is_under
from flagperf.contract.leaves import leaves
from flagperf.contract.perflog import Event
from flagperf.errors import ConfigError

STEPS = 20
NUMBERS = ("loss", "grad_norm")  # of each step
NO_METRIC = ("step", "samples", "time")  # fields of EVALUATE beside the metrics
COMPUTED = (  # what decides what is computed; the precision has a band of its own
    *("network", "optimizer", "lr_scheduler", "task", "train_data", "eval_data", "fingerprint", "init_checkpoint"),
    *("train_batch_size", "eval_batch_size", "gradient_accumulation_steps", "global_batch_size", "lr", "lr_interval"),
    *("adapter", "initialisation"),
    *("max_steps", "eval_interval_steps", "clip_grad", "sync_bn", "ema", "float8_modules", "synthetic", "seed"),
    *("random_numbers", "nnodes", "nproc"),
)
FREE = ("optimizer.fused", "optimizer.foreach")  # ways to compute the same
# What a training sets that is held against a curve: each step is logged with its gradient norm, nothing ends it early.
ALWAYS = (
    *("size=tiny", "division=open", "nnodes=1", "nproc=1", "seed=0", f"max_steps={STEPS}", "target=null"),
    *("max_samples_termination=null", "max_time=null", "initial_evaluation=false"),  # schedules need max_epochs
    *(f"eval_interval_steps={STEPS}", "eval_interval_micro_steps=null", "eval_interval_samples=null"),
    *("eval_interval_epochs=null", "eval_start_samples=0", "log_freq=1", "num_workers=1"),
    *("deterministic=true", "random_numbers=host", "activation_checkpointing=false", "compile=false"),
)
NO_LIMIT = "clip_grad=1.0e+30"  # the norm is logged, and nothing is clipped


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
        """The distance of each number from the curve, in the order of steps; infinite where there is no number."""
        widths = {(name, step): width for name, step, width in self.band.points()}
        values = {(name, step): value for name, step, value in self.measured.points()}
        distances = [
            Distance(_ratio(abs(values.get((name, step), math.nan) - expected), widths[name, step]), name, step)
            for name, step, expected in self.golden.curve.points()
            if name != "grad_norm" or self.measured.grad_norm  # some frameworks log none
        ]
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
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return [
            Golden(
                content["case"],
                content["revision"],
                name,
                tuple(curve["overrides"]),
                curve["identity"],
                _curve(curve),
                {precision: _curve(band) for precision, band in curve["bands"].items()},
            )
            for name, curve in content["curves"].items()
        ]
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        problem = f"this is no file of golden curves: {type(error).__name__}: {error}"
        raise ConfigError(problem, where=str(path), advice="docs/numerics.md shows the form") from None


def _curve(node: Mapping[str, Any]) -> Curve:
    return Curve(*(node[field.name] for field in fields(Curve)))


def golden_file(case: str, folders: Sequence[Path]) -> Path:
    """The file of the curves of a case.

    Raises:
        ConfigError: the case has none.
    """
    path = find(f"golden/{case}", folders)
    if path is None:
        family = family_of(case, folders)
        advice = f"python -m cases.golden {case} writes them"
        advice = advice if family == case else f"model={family} has golden curves and the same layers"
        raise ConfigError("the case has no golden curves", key="model", given=case, advice=advice)
    return path


def identity_of(config: Mapping[str, Any]) -> str:
    """What identifies the training that a configuration describes: what is computed, from which data."""
    text = json.dumps(computed(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def computed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key → value of all that decides what is computed. The folder of the data counts by its last name."""
    folder = config["data_dir"] or ""
    unused = {  # settings that are newer than most curves
        "adapter": not config["adapter"]["modules"],
        "initialisation": config.get("initialisation", "in_order") == "in_order",
    }
    flat = leaves({name: config.get(name) for name in COMPUTED if not unused.get(name)})
    kept = {key: value for key, value in flat.items() if not any(is_under(key, free) for free in FREE)}
    bare = {
        key: value.replace(folder, "") if folder and isinstance(value, str) else value for key, value in kept.items()
    }
    return {"revision": config["revision"], "data": Path(folder).name, **bare}


def clipping(config: Mapping[str, Any]) -> list[str]:
    """The override that makes a training log its gradient norm, where the case clips nothing."""
    return [NO_LIMIT] if config["clip_grad"] is None else []
