"""The keys of a configuration: type, range and options of each, in one table.

A key outside the table belongs to one case, and has the type of the value in the case file; or it belongs to a vendor,
a product, a runtime or a cluster, whose keys are the fields of platform.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from flagperf.config.schema.limits import AutoBatch, Fabric, Operators
from flagperf.contract.fields import TYPE_NAMES, Field, count, folder_name, is_a, seconds, switch, text
from flagperf.contract.hints import fields_of
from flagperf.contract.settings import Settings

# Larger values are typing errors, whose plan would fill the memory.
MOST_NODES, MOST_DEVICES, MOST_ROUNDS = 65536, 1024, 10000
MOST_RANKS = 1 << 20

# What a case is about: the groups of `flagperf list cases`.
FIELDS = ("vision", "language", "speech", "recommendation", "generation")
PROBES = ("alone", "fabric", "links", "operators")  # what ranks may measure in place of a training

KEYS: dict[str, Field] = {
    # conf/config.yaml
    "framework.version": text(null=True, platform=True),
    "nnodes": count(high=MOST_NODES, platform=True),
    "nproc": count(high=MOST_DEVICES, platform=True),
    "repeat": count(high=MOST_ROUNDS, platform=True),
    "repeat_seed": text("own", "same", platform=True),
    "max_cv": Field(float, above=0, platform=True),
    "division": text("closed", "open", platform=True),
    "data_dir": text(null=True, platform=True),
    "code_dir": text(null=True, platform=True),
    "sample_dir": text(null=True, platform=True),
    "result_dir": text(platform=True),
    "reports": Field(list, platform=True),
    "run_name": folder_name(null=True, platform=True),
    "resume": text(null=True, platform=True),
    "restarts": count(low=0, high=MOST_ROUNDS),  # no key of the platform: a closed run may not change it
    "clear_caches": switch(platform=True),
    "require_target": switch(platform=True),
    "require_alignment": switch(platform=True),
    "alignment": text(null=True, platform=True),
    "oversubscribe": switch(platform=True),
    "dry_run": switch(platform=True),
    "submit": switch(platform=True),
    "only": text(null=True, platform=True),
    "render": text(null=True, platform=True),
    "predict": switch(platform=True),
    "prove": switch(platform=True),
    "locate": switch(platform=True),
    "probe": text("run", *PROBES, null=True, platform=True),
    **{f"auto_batch.{name}": replace(field, platform=True) for name, field in fields_of(AutoBatch).items()},
    **{f"fabric.{name}": replace(field, platform=True) for name, field in fields_of(Fabric).items()},
    **{f"operators.{name}": replace(field, platform=True) for name, field in fields_of(Operators).items()},
    "log_level": text("debug", "info", "warning", "error", platform=True),
    "mlperf.division": text("open", "closed", platform=True),
    "mlperf.org": text(null=True, platform=True),
    "mlperf.status": text("cloud", "onprem", "preview", "research", null=True, platform=True),
    "mlperf.platform": text(null=True, platform=True),
    **{f"deadlines.{name}": seconds(platform=True) for name in ("connect", "start", "first_step", "stall", "stop")},
    **{f"monitor.{name}": seconds(platform=True) for name in ("interval", "power_interval")},
    **fields_of(Settings),  # conf/training.yaml
    # config/parts/batch_size.py replaces `auto` before this check
    "train_batch_size": replace(count(), words="auto (but not in a case), or a whole number"),
    # every case
    "case": folder_name(),
    "title": text(),
    "field": text(*FIELDS),
    "revision": count(),
    "target": Field(dict, null=True),
    "throughput_unit": text(),
    "unit": text(),
    # cases that a ruleset of MLPerf knows
    "mlperf.benchmark": text(null=True),
    "mlperf.ruleset": text(null=True),
    "mlperf.factor": Field(float, above=0),
    # hyper-parameters of several cases
    "weight_decay": Field(float, low=0),
    "momentum": Field(float, low=0, high=1),
    "lr_gamma": Field(float, above=0),
    "adam_beta1": Field(float, low=0, high=1),
    "adam_beta2": Field(float, low=0, high=1),
    "adam_eps": Field(float, above=0),
    "warmup": Field(float, low=0, high=1),
}

SCALE = "scale"  # <nnodes>x<nproc>: sets both keys, for sweeps over scales

SUITE = "suite"  # of an experiment: its jobs

# Keys in the name of every result folder. Other swept keys are added to the name.
IN_NAME = ("model", "framework", "hardware", "nnodes", "nproc", SCALE)

# Groups that a command line or an experiment can choose. The case chooses mutable list and framework.
GROUPS = ("model", "vendor", "hardware", "cluster", "runtime", "size", "experiment")

# Sections of the configuration outside the table: sections of the platform …
PLATFORM_PARTS = ("cluster", "runtime", "size")
# … and all sections.
PARTS = (*PLATFORM_PARTS, "vendor", "hardware", "framework", "mutable", "data")

# Platform keys that select other software. Every run may set them, and each is recorded as a change.
SOFTWARE = (
    "code_dir",
    "framework.version",
    "runtime.python",
    "runtime.container",
    "cluster.container",
    "cluster.image",
    "cluster.kubernetes.image",
    "cluster.secrets",
)

# FlagPerf's name of a key → its name here.
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

# A word of other tools → advice.
OTHER_WORDS = {
    "device": "vendor=NAME chooses the devices; flagperf list vendors shows the names",
    "devices": "nproc=N is the number of devices of each node",
    "gpus": "nproc=N is the number of devices of each node",
    "num_gpus": "nproc=N is the number of devices of each node",
    "world_size": "the number of ranks is nnodes=N x nproc=N",
}

# Group and FlagPerf's name of an option → its name here.
RENAMED_OPTIONS = {("hardware", "9100"): "Ascend910"}


OPEN = "division=open allows it, and the report says so"  # advice for a change that a closed run may not make


def is_platform(key: str) -> bool:
    """Whether a key is one of the platform, which every run may set."""
    field = KEYS.get(key)
    return field.platform if field else key.split(".")[0] in PLATFORM_PARTS


def is_under(key: str, keys: Iterable[str]) -> bool:
    """Whether a dotted key is one of `keys` or below one."""
    return any(key == other or key.startswith(f"{other}.") for other in keys)


def check_value(key: str, value: Any, like: Any, where: Callable[[str], str]) -> None:
    """Refuse a value of the wrong type or out of range.

    Args:
        like: the case's value, for the type of a key outside the table.
        where: dotted key → the file or "command line" that set the key.
    """
    field = KEYS.get(key)
    if field is None:
        kind = next((kind for kind in TYPE_NAMES if is_a(like, kind)), None)
        if kind is None:
            return
        field = Field(kind)
    field.check(key, value, where)
