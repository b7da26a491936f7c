"""The settings with which a training compares with a golden curve, and the identity of its computation.

`python -m cases.golden` writes the curves from real trainings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.config.files.search_path import family_of, find
from flagperf.config.schema.keys import is_under
from flagperf.contract.golden import Golden
from flagperf.contract.leaves import leaves
from flagperf.errors import ConfigError

STEPS = 20
COMPUTED = (  # keys that decide the computation; the precision has a band of its own
    *("network", "optimizer", "lr_scheduler", "task", "train_data", "eval_data", "fingerprint", "init_checkpoint"),
    *("train_batch_size", "eval_batch_size", "gradient_accumulation_steps", "global_batch_size", "lr", "lr_interval"),
    *("adapter", "initialisation"),
    *("max_steps", "eval_interval_steps", "clip_grad", "sync_bn", "ema", "float8_modules", "synthetic", "seed"),
    *("random_numbers", "nnodes", "nproc"),
)
# Defaults that most curves lack.
NEWER = (("train_data.documents", False), ("eval_data.documents", False), ("eval_data.masks", False))
FREE = ("optimizer.fused", "optimizer.foreach")  # ways to compute the same
# What a training sets that is held against a curve: each step is logged with its gradient norm, nothing ends it early.
ALWAYS = (
    *("size=tiny", "division=open", "nnodes=1", "nproc=1", "seed=0", f"max_steps={STEPS}", "target=null"),
    *("max_samples_termination=null", "max_time=null", "initial_evaluation=false"),  # schedules need max_epochs
    *(f"eval_interval_steps={STEPS}", "eval_interval_micro_steps=null", "eval_interval_samples=null"),
    *("eval_interval_epochs=null", "eval_start_samples=0", "log_freq=1", "num_workers=1"),
    *("deterministic=true", "random_numbers=host", "activation_checkpointing=false", "compile=false"),
)
SETS = {*COMPUTED, *(word.partition("=")[0] for word in ALWAYS), "data_dir"}  # keys that a curve may set, …
NAMES_CODE = re.compile(r"_(target|partial|args|recursive|convert)_|\$\{")  # … with values, and not with code
NO_LIMIT = "clip_grad=1.0e+30"  # the norm is logged, and nothing is clipped


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


def check_overrides(golden: Golden) -> None:
    """Refuse a curve that sets more than values of a training: anyone may have written its file.

    Raises:
        ConfigError: an override sets another key, or names code.
    """
    for override in golden.overrides:
        key = override.partition("=")[0]
        if key.partition(".")[0] not in SETS or NAMES_CODE.search(override):
            allowed = "values of the settings that decide what a training computes; no _target_ and no ${…}"
            advice = "a class of yours belongs into a case: --config-dir FOLDER"
            where = f"the curve {golden.name}"
            raise ConfigError(
                "a golden curve cannot set this", where=where, key=key, given=override, allowed=allowed, advice=advice
            )


def identity_of(config: Mapping[str, Any]) -> str:
    """The identity of the training of a configuration: its computation and its data."""
    text = json.dumps(computed(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def computed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key → value, of the keys that decide the computation. The folder of the data counts by its last name."""
    folder = config["data_dir"] or ""
    unused = {  # settings that are newer than most curves
        "adapter": not config["adapter"]["modules"],
        "initialisation": config.get("initialisation", "in_order") == "in_order",
    }
    flat = leaves({name: config.get(name) for name in COMPUTED if not unused.get(name)})
    flat = {key: value for key, value in flat.items() if (key, value) not in NEWER}
    kept = {key: value for key, value in flat.items() if not any(is_under(key, free) for free in FREE)}
    bare = {
        key: value.replace(folder, "") if folder and isinstance(value, str) else value for key, value in kept.items()
    }
    return {"revision": config["revision"], "data": Path(folder).name, **bare}


def clipping(config: Mapping[str, Any]) -> list[str]:
    """The override that makes a training log its gradient norm, where the case clips nothing."""
    return [NO_LIMIT] if config["clip_grad"] is None else []
