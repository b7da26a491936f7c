"""The words of conf/training.yaml, as the loop reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError
from flagperf.trainer.sample_data import is_sample_data


@dataclass(frozen=True)
class Target:
    """Metric, value and direction that the case must reach; `also`: further metrics that must do so with it."""

    metric: str
    value: float
    direction: str
    unit: str = ""
    also: Mapping[str, float] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, float]:
        """Metric → value that it must reach, of all metrics."""
        return {self.metric: self.value, **self.also}

    def reached(self, metrics: Mapping[str, float]) -> bool:
        """True when each metric is as good as asked; NaN never is."""
        higher = self.direction == "higher"
        return all(metrics[name] >= goal if higher else metrics[name] <= goal for name, goal in self.values.items())


@dataclass(frozen=True)
class Words:
    """The choices of one training; each is explained in conf/training.yaml."""

    train_batch_size: int
    eval_batch_size: int
    gradient_accumulation_steps: int
    max_steps: int | None
    max_epochs: int | None
    max_samples_termination: int | None
    max_time: float | None
    initial_evaluation: bool
    eval_interval_steps: int | None
    eval_interval_samples: int | None
    eval_interval_epochs: int | None
    eval_start_samples: int
    target: Target | None
    precision: str
    clip_grad: float | None
    compile: bool
    memory_format: str
    activation_checkpointing: bool
    checkpoint_modules: str | None
    sync_bn: bool
    ema: Mapping[str, Any]
    ddp: Mapping[str, Any]
    lr_interval: str
    seed: int
    deterministic: bool
    cudnn_benchmark: bool
    num_workers: int
    synthetic: bool
    init_checkpoint: str | None
    resume: str | None
    checkpoint_freq: int | None
    log_freq: int
    warmup_steps: int
    process_group_timeout: float

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Words:
        """Take the words out of a resolved configuration.

        Raises:
            ConfigError: a word is missing, nothing would ever end the training, or there is nothing to evaluate on.
        """
        for word in fields(cls):
            if word.name not in config:
                raise ConfigError("a word of the training loop is missing", where="config.yaml", key=word.name)
        values = {field.name: config[field.name] for field in fields(cls)}
        if config["synthetic"]:
            values |= _of_synthetic(config)
        words = cls(**values | {"target": Target(**values["target"]) if values["target"] else None})
        ends = (words.max_steps, words.max_epochs, words.max_samples_termination, words.max_time, words.target)
        if all(end is None for end in ends):
            raise ConfigError(
                "nothing would ever end this training",
                where="config.yaml",
                allowed="at least one of max_steps, max_epochs, max_samples_termination, max_time and target",
            )
        if config.get("eval_data") is None and words.evaluates:
            raise ConfigError(
                "there is no evaluation data",
                where="config.yaml",
                key="eval_data",
                given="null",
                advice="without it, set target and all of eval_interval_steps, _samples and _epochs to null",
            )
        return words

    @property
    def evaluates(self) -> bool:
        """Whether any word asks for an evaluation."""
        intervals = (self.eval_interval_steps, self.eval_interval_samples, self.eval_interval_epochs)
        return self.initial_evaluation or self.target is not None or any(interval is not None for interval in intervals)


def _of_synthetic(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a synthetic training goes by: nothing is evaluated, and sample data holds no weights to start from."""
    evaluation = ("eval_interval_steps", "eval_interval_samples", "eval_interval_epochs", "target")
    values: dict[str, Any] = {**dict.fromkeys(evaluation), "initial_evaluation": False}
    weights, folder = config["init_checkpoint"], config["data_dir"]
    if weights and is_sample_data(folder) and Path(weights).is_relative_to(folder):
        values["init_checkpoint"] = None
    return values
