"""The words of a configuration: type, range and options of each, in one table.

A key that is not in the table belongs to one case; its type is that of the value in the case file.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flagperf.errors import ConfigError


@dataclass(frozen=True)
class Word:
    """What one key accepts. `platform`: it says where, how often or how a job runs, and so is no part of the case."""

    type: type
    low: float | None = None  # smallest value allowed …
    above: float | None = None  # … or the value it must be above
    high: float | None = None
    options: tuple[str, ...] = ()
    null: bool = False
    platform: bool = False

    def accepts(self, value: Any) -> bool:
        """True when the value has the type and lies in the range."""
        if value is None:
            return self.null
        if not is_a(value, self.type):
            return False
        if self.options and any(item not in self.options for item in (value if self.type is list else [value])):
            return False
        if self.type in (int, float):
            return (
                (self.low is None or value >= self.low)
                and (self.above is None or value > self.above)
                and (self.high is None or value <= self.high)
            )
        return True

    def __str__(self) -> str:
        null = ", or null" if self.null else ""
        if self.options:
            return f"{'a list of' if self.type is list else 'one of'}: {', '.join(self.options)}{null}"
        bounds = {"at least": self.low, "above": self.above, "at most": self.high}
        return TYPE_NAMES[self.type] + "".join(f", {name} {at}" for name, at in bounds.items() if at is not None) + null


TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


def is_a(value: Any, kind: type) -> bool:
    """True when a YAML value is of the kind; a whole number is a number, true and false are not."""
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, (int, float)) and math.isfinite(value)
    return isinstance(value, kind)


def count(low: int = 1, *, null: bool = False, platform: bool = False) -> Word:
    """A whole number of things."""
    return Word(int, low=low, null=null, platform=platform)


def seconds(*, null: bool = False, platform: bool = False) -> Word:
    """A time."""
    return Word(float, above=0, null=null, platform=platform)


def text(*options: str, null: bool = False, platform: bool = False) -> Word:
    """Text, or one of the options."""
    return Word(str, options=options, null=null, platform=platform)


def switch(*, platform: bool = False) -> Word:
    """True or false."""
    return Word(bool, platform=platform)


WORDS: dict[str, Word] = {
    # conf/config.yaml
    "nnodes": count(platform=True),
    "nproc": count(platform=True),
    "repeat": count(platform=True),
    "division": text("closed", "open", platform=True),
    "data_dir": text(null=True, platform=True),
    "code_dir": text(null=True, platform=True),
    "sample_dir": text(platform=True),
    "result_dir": text(platform=True),
    "run_name": text(null=True, platform=True),
    "resume": text(null=True, platform=True),
    "clear_caches": switch(platform=True),
    "require_target": switch(platform=True),
    "dry_run": switch(platform=True),
    "log_level": text("debug", "info", "warning", "error", platform=True),
    **{f"deadlines.{name}": seconds(platform=True) for name in ("connect", "start", "first_step", "stall", "stop")},
    **{f"monitor.{name}": seconds(platform=True) for name in ("interval", "power_interval")},
    # conf/training.yaml
    "train_batch_size": count(),
    "eval_batch_size": count(),
    "gradient_accumulation_steps": count(),
    "lr": Word(float, above=0),
    "max_steps": count(null=True),
    "max_epochs": count(null=True),
    "max_samples_termination": count(null=True),
    "max_time": seconds(null=True),
    "initial_evaluation": switch(),
    "eval_interval_steps": count(null=True),
    "eval_interval_samples": count(null=True),
    "eval_interval_epochs": count(null=True),
    "eval_start_samples": count(0),
    "target.metric": text(),
    "target.value": Word(float),
    "target.direction": text("higher", "lower"),
    "target.unit": text(),
    "precision": text("fp32", "tf32", "amp_fp16", "amp_bf16"),
    "clip_grad": Word(float, above=0, null=True),
    "compile": switch(),
    "memory_format": text("contiguous_format", "channels_last"),
    "activation_checkpointing": switch(),
    "checkpoint_modules": text(null=True),
    "sync_bn": switch(),
    "ema.decay": Word(float, above=0, high=1, null=True),
    "ema.every": count(),
    "lr_interval": text("step", "epoch"),
    "seed": count(0),
    "deterministic": switch(),
    "cudnn_benchmark": switch(),
    "num_workers": count(0),
    "synthetic": switch(),
    "init_checkpoint": text(null=True),
    "checkpoint_freq": count(null=True),
    "log_freq": count(),
    "warmup_steps": count(0),
    "process_group_timeout": seconds(),
    "sinks": Word(list, options=("mllog", "dllogger", "tensorboard")),
    # conf/hardware, conf/cluster
    "hardware.memory_gib": Word(float, above=0, null=True),
    "hardware.power_w": Word(float, above=0, null=True),
    "hardware.devices_per_node": count(null=True),
    "hardware.devices_per_card": count(),
    **{f"hardware.peak_flops.{name}": Word(float, above=0) for name in ("fp32", "tf32", "fp16", "bf16")},
    "cluster.rendezvous.port": Word(int, low=0, high=65535, null=True, platform=True),
    # every case
    "case": text(),
    "title": text(),
    "throughput_unit": text(),
    "unit": text(),
    # hyper-parameters of several cases
    "weight_decay": Word(float, low=0),
    "momentum": Word(float, low=0, high=1),
    "lr_gamma": Word(float, above=0),
    "adam_beta1": Word(float, low=0, high=1),
    "adam_beta2": Word(float, low=0, high=1),
    "adam_eps": Word(float, above=0),
    "warmup": Word(float, low=0, high=1),
}

# Groups of which a command line or an experiment chooses; mutable list and framework are the case's to choose.
GROUPS = ("model", "vendor", "hardware", "cluster", "runtime", "size", "experiment")

# Parts of the configuration beside the words: they say where and how a job runs …
PLATFORM_PARTS = ("cluster", "runtime", "size")
# … and all of them.
PARTS = (*PLATFORM_PARTS, "vendor", "hardware", "framework", "mutable", "data", "ddp")

# FlagPerf's names of what has another name here.
RENAMED = {
    "amp": "precision=amp_fp16 or precision=amp_bf16",
    "fp16": "precision=amp_fp16 or precision=amp_bf16",
    "learning_rate": "lr",
    "max_epoch": "max_epochs",
    "dist_backend": "vendor.backend",
    "cudnn_deterministic": "deterministic",
    "print_freq": "log_freq",
    "train_data": "train_path",
    "eval_data": "eval_path",
    "data_root": "data_dir",
    "nodes": "nnodes",
}


def is_platform(key: str) -> bool:
    """True for the platform's own keys, which every run may set."""
    word = WORDS.get(key)
    return word.platform if word else key.split(".")[0] in PLATFORM_PARTS


def is_under(key: str, keys: Iterable[str]) -> bool:
    """True when the dotted key is one of `keys` or lies below one."""
    return any(key == other or key.startswith(f"{other}.") for other in keys)


def meant(given: Any, known: Iterable[str]) -> str | None:
    """A question after the nearest of the known names, where one is near."""
    close = difflib.get_close_matches(str(given), sorted(known), n=1)
    return f"did you mean '{close[0]}'?" if close else None


def check_value(key: str, value: Any, like: Any, where: Callable[[str], str]) -> None:
    """Refuse a value of the wrong type or out of range.

    Args:
        like: the value that the case has, whose type counts where the table does not know the key.
        where: dotted key → the file or "command line" that set it.
    """
    word = WORDS.get(key)
    if word is None:
        kind = next((kind for kind in TYPE_NAMES if is_a(like, kind)), None)
        if kind is None:
            return
        word = Word(kind)
    if word.accepts(value):
        return
    if not is_a(value, word.type):
        problem = "wrong type of value"
    else:
        problem = "no such option" if word.options else "value out of range"
    advice = meant(value, word.options)
    if word.type is str and not isinstance(value, (str, type(None))):
        advice = f"as text it is written {key}=\"'{value}'\""
    given = "null" if value is None else value
    raise ConfigError(problem, where=where(key), key=key, given=given, allowed=str(word), advice=advice)
