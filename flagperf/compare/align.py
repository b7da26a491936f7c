"""Compares losses and final metric of a training with a reference training of equal settings, seed and data.

The rule is Tecorigin's for FlagPerf: the mean relative error of the loss over the steps, and that of the final metric,
are at most a given share.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.compare.checksums import Checksums, compared
from flagperf.compare.gate import Decision, Outcome
from flagperf.compare.jobs import NamedJob
from flagperf.compare.likeness import NAMED, NOT_SET, check_alike, differences
from flagperf.contract.mesh import Mesh
from flagperf.contract.records import Result
from flagperf.errors import ConfigError
from flagperf.results.rank_log import first_rank_log
from flagperf.results.summary import metric, usable

LEAST_STEPS = 5  # steps in the logs of both trainings
SHOWN = 5  # so many steps are named that only one training logged
# How the samples of an optimizer step are divided over devices and micro steps: only their number must be equal.
SPLIT = ("nnodes", "nproc", "train_batch_size", "gradient_accumulation_steps", "eval_batch_size", "parallel")
SAMPLES, ONE_STEP = "samples of a step", "devices with data of their own x micro steps x train_batch_size"
# These keys change the numbers of a training only by rounding: output, paths of data (fingerprints are compared), and
# the kernels of the device.
FREE_KEYS = (
    *(key for key in NAMED if key not in SPLIT),
    *("log_freq", "sinks", "checkpoint_freq", "process_group_timeout", "vendor"),
    *("train_path", "eval_path", "weights_path", "train_annotations", "eval_annotations", "tokenizer_path"),
    *("compile", "memory_format", "activation_checkpointing", "checkpoint_modules", "cudnn_benchmark"),
    *("compile_modules", "attention_kernels", "checkpoint_keeps", "loss_chunk", "profile"),
    *("deterministic", "optimizer.fused", "optimizer.foreach", "code_dir", "runtime", "cluster"),
    "seed",  # the seed of each round is compared
)


@dataclass(frozen=True)
class Alignment:
    """A training and its reference. Losses are step → loss, of the logged steps."""

    base_name: str  # of the reference
    other_name: str
    seed: int
    share: float  # the largest error
    reference: Mapping[int, float]
    other: Mapping[int, float]
    metric: str | None  # figure of the case's target; None: the case has no target
    metrics: tuple[float | None, float | None]  # final values of the reference and of the other
    unpaired: tuple[int, ...] = ()  # seeds of rounds that only one of the jobs has
    checksums: Checksums | None = None  # None: not logged by both, or of other shares of a step
    splits: tuple[Split, Split] | None = None

    @property
    def steps(self) -> list[int]:
        """The steps that both logged, in ascending order."""
        return sorted(self.reference.keys() & self.other.keys())

    @property
    def loss_error(self) -> float | None:
        """Mean relative error of the loss; None without a common step."""
        errors = [self.error(step) for step in self.steps]
        return statistics.fmean(errors) if errors else None

    @property
    def metric_error(self) -> float | None:
        """Relative error of the final metric; None where a final metric is not known."""
        base, other = self.metrics
        return None if base is None or other is None else relative_error(base, other)

    @property
    def outside(self) -> int | None:
        """The first step whose loss lies outside of the band."""
        return next((step for step in self.steps if self.error(step) > self.share), None)

    @property
    def outcome(self) -> Outcome:
        """passed, failed, or undecided: too few common steps, or no common metric."""
        errors = [error for error in (self.loss_error, self.metric_error) if error is not None]
        if len(self.steps) < LEAST_STEPS:
            return "undecided"
        if max(errors) > self.share or (self.share == 0 and self.checksums and self.checksums.step is not None):
            return "failed"
        return "undecided" if self.metric and self.metric_error is None else "passed"

    @property
    def decision(self) -> Decision:
        """The answer of align=SHARE for this pair of jobs."""
        return Decision(
            f"align={100 * self.share:g}%", f"{self.base_name} → {self.other_name}", self.outcome, self._why()
        )

    def error(self, step: int) -> float:
        """Relative error of the loss in a step that both logged."""
        return relative_error(self.reference[step], self.other[step])

    def _why(self) -> str:
        parts = [f"seed {self.seed}", f"{len(self.steps)} steps in common"]
        if self.splits and self.splits[0] != self.splits[1]:
            reference, other = self.splits
            parts.append(f"samples of a step {other}, of the reference {reference}")
        if self.loss_error is not None:
            parts.append(f"mean error of the loss {_percent(self.loss_error)}")
            if self.outside is None:
                parts.append("each step within the band")
            else:
                parts.append(f"step {self.outside} is the first outside, by {_percent(self.error(self.outside))}")
        if self.metric:
            error = self.metric_error
            parts.append(f"{self.metric} " + ("not known of both" if error is None else f"off by {_percent(error)}"))
        parts += [str(self.checksums)] if self.checksums else []
        parts += _only("the reference", self.reference.keys() - self.other.keys())
        parts += _only("the other", self.other.keys() - self.reference.keys())
        if self.unpaired:
            parts.append(f"only one of them has a round that counts with seed {', '.join(map(str, self.unpaired))}")
        if len(self.steps) < LEAST_STEPS:
            parts.append(f"{LEAST_STEPS} steps are needed: log_freq=1")
        return ", ".join(parts)


def relative_error(reference: float, value: float) -> float:
    """Distance of a value from its reference, as a share of the reference; infinite where that is 0 or one is NaN."""
    if reference == value:
        return 0.0
    error = abs(value - reference) / abs(reference) if reference else math.inf
    return math.inf if math.isnan(error) else error


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _only(side: str, steps: Collection[int]) -> list[str]:
    if not steps:
        return []
    shown = [str(step) for step in sorted(steps)[:SHOWN]] + ["…"] * (len(steps) > SHOWN)
    return [f"only {side} logged {len(steps)} steps ({', '.join(shown)})"]


def align(reference: NamedJob, other: NamedJob, share: float, across: Collection[str] = ()) -> list[Alignment]:
    """Compare each training of a job with the training of the reference that had the same seed.

    Args:
        share: the largest error of the final metric, and of the loss in the mean.
        across: keys of `likeness.MUST` in which the jobs may differ, such as precision.

    Raises:
        ConfigError: settings, seed or data differ.
    """
    names = reference.name, other.name
    check_alike(reference.summary, other.summary, names, across)
    _check_settings(reference, other, across)
    seeds, other_seeds = _seeds(reference), _seeds(other)
    common = [seed for seed in seeds if seed in other_seeds]
    if not common:
        texts = (", ".join(map(str, sorted(known))) or "not known" for known in (seeds, other_seeds))
        raise _differ(names, "seed", *texts)
    name = metric(reference.summary)
    splits = (Split.of(reference.summary.config), Split.of(other.summary.config))
    return [
        Alignment(
            *names,
            seed,
            share,
            _losses(reference, seeds[seed]),
            _losses(other, other_seeds[seed]),
            name,
            (seeds[seed].values.get(name or ""), other_seeds[seed].values.get(name or "")),
            tuple(sorted(seeds.keys() ^ other_seeds.keys())),
            compared(_round(reference, seeds[seed]), _round(other, other_seeds[seed]))
            if splits[0] == splits[1]
            else None,
            splits,
        )
        for seed in common
    ]


def _check_settings(reference: NamedJob, other: NamedJob, across: Collection[str]) -> None:
    """Raise an error where a setting differs that changes the computation."""
    names = reference.name, other.name
    base_split, split = Split.of(reference.summary.config), Split.of(other.summary.config)
    if base_split.samples != split.samples:
        texts = (f"{each.samples}: {each}" for each in (base_split, split))
        raise _differ(names, SAMPLES, *texts)
    for key, base, given in differences(reference.summary, other.summary):
        is_free = any(key == section or key.startswith(f"{section}.") for section in (*FREE_KEYS, *across, *SPLIT))
        if not is_free and not key.startswith(NOT_SET):
            raise _differ(names, key, base, given)


class Split(NamedTuple):
    """How the samples of an optimizer step are divided."""

    data_ranks: int
    micro_steps: int
    batch: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Split:
        """That of a configuration; an older one may lack keys."""
        mesh = (config.get("parallel") or {}).get("mesh") or {"dp_replicate": -1}
        data_ranks = Mesh.of(mesh, config["nnodes"] * config["nproc"]).data_ranks
        return cls(data_ranks, config.get("gradient_accumulation_steps", 1), config.get("train_batch_size", 1))

    @property
    def samples(self) -> int:
        """Of the whole job."""
        return math.prod(self)

    def __str__(self) -> str:
        return " x ".join(map(str, self))


def _differ(names: tuple[str, str], key: str, base: str, given: str) -> ConfigError:
    return ConfigError(
        "these trainings cannot be aligned: their computations differ",
        where=names[1],
        key=key,
        given=given,
        allowed=f"{base}, as in {names[0]}",
        advice=f"train again with the same {key}" + (f" ({ONE_STEP})" if key == SAMPLES else ""),
    )


def _seeds(job: NamedJob) -> dict[int, Result]:
    """Seed → the first round with this seed that counts."""
    return {result.seed: result for result in reversed(usable(job.summary.results)) if result.seed is not None}


def _round(job: NamedJob, result: Result) -> Path:
    return Path(job.name) / f"round{result.round}"


def _losses(job: NamedJob, result: Result) -> dict[int, float]:
    log = first_rank_log(_round(job, result))
    values = [event.value for event in log.all("STEP_END")] if log else []
    loss_of_step = {value.get("step"): value.get("loss") for value in values}
    return {int(step): float(loss) for step, loss in loss_of_step.items() if step is not None and loss is not None}
