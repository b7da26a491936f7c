"""What a trace depends on. The program that traces gets this alone, so no other key can change a trace.

A key that is not named here may change a step, and forces a trace of its own: those of a case's network among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Keys of the platform: how, where and how often a training runs, and what is made of its results.
LEFT_OUT = (
    "alignment", "alignment_record", "auto_batch", "clear_caches", "cluster", "container", "deadlines", "dry_run",
    "fabric", "hardware", "locate", "log_level", "max_cv", "mlperf", "monitor", "mutable", "only", "operators",
    "oversubscribe", "predict", "probe", "prove", "render", "repeat", "repeat_seed", "reports", "require_alignment",
    "require_target", "restarts", "result_dir", "resume", "run_name", "runtime", "sample_dir", "submit",
)  # fmt: skip
OF_SCHEDULE = ("lr_", "warmup")  # beginnings of the keys of a case from which it makes its schedule
# Keys that the program reads, or that a part of a case may name, with the value that it gets for any value.
ANY_VALUE: Mapping[str, Any] = {
    **dict.fromkeys(("max_epochs", "max_samples_termination", "max_time", "target")),
    "max_steps": 1,  # something must end a training
    **dict.fromkeys(("eval_interval_steps", "eval_interval_micro_steps", "eval_interval_samples")),
    **dict.fromkeys(("eval_interval_epochs", "train_data", "eval_data", "lr_scheduler", "fingerprint")),
    "initial_evaluation": False,
    "eval_start_samples": 0,
    "eval_batch_size": 1,
    "stop_on_sample_data": True,
    "global_batch_size": None,
    "lr": 1e-3,
    "lr_interval": "step",
    "division": "open",
    "seed": 0,
    "num_workers": 0,
    "init_checkpoint": None,
    "checkpoint_freq": None,
    "checkpoint_in_background": False,
    "checksum_freq": None,
    "log_freq": 10,
    "warmup_steps": 0,
    "process_group_timeout": 600,
    "profile": False,
    "sinks": (),
}
OF_VENDOR = ("device", "plugin", "extension")  # the keys of the vendor that the ranks' code reads


def traced(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a configuration on which its trace depends, in the form of a configuration."""
    kept = {key: value for key, value in config.items() if not (key in LEFT_OUT or key.startswith(OF_SCHEDULE))}
    kept |= {key: value for key, value in ANY_VALUE.items() if key in config}
    kept["vendor"] = {key: value for key, value in (config.get("vendor") or {}).items() if key in OF_VENDOR}
    if "lr" in (config.get("optimizer") or {}):
        kept["optimizer"] = {**config["optimizer"], "lr": ANY_VALUE["lr"]}
    if config.get("data"):  # a task may read what the sample data is like
        kept["data"] = {"sample": config["data"].get("sample")}
    return kept
