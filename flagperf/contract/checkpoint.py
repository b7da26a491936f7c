"""Checkpoints for launcher and ranks: their forms, and the settings that a resumed training must share with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from flagperf.contract.settings import Settings
from flagperf.errors import ConfigError

CHECKPOINTS = "checkpoint"  # folder of a round
FORMS = ("step*.pt", "step*.dcp")  # a file; a folder
RUN = ("case", "revision", "size", "division")  # of the identity, beside the settings and the parts
PARTS = ("network", "task", "optimizer", "lr_scheduler", "train_data", "eval_data")
RECIPE = ("lr", "lr_interval", "clip_grad", "adapter", "optimizer", "lr_scheduler")  # how the weights are updated
BATCH = ("train_batch_size", "gradient_accumulation_steps")  # Sharded compares the samples of a step in their place
# Arguments of parts that choose kernels or save memory: the part computes the same.
KERNELS = ("fused", "foreach", "capturable", "differentiable", "loss_chunk")
# Settings that a resumed training may have otherwise → why. All others are in the identity.
OTHERWISE = {
    **dict.fromkeys(("max_steps", "max_epochs", "max_samples_termination", "max_time"), "ends the training"),
    **dict.fromkeys(("target", "stop_on_sample_data"), "ends the training"),
    **dict.fromkeys(("initial_evaluation", "eval_interval_steps", "eval_interval_micro_steps"), "when to evaluate"),
    **dict.fromkeys(("eval_interval_samples", "eval_interval_epochs", "eval_start_samples"), "when to evaluate"),
    "eval_batch_size": "metrics are those of all samples, in batches of any size",
    "global_batch_size": "a check of the batch sizes, which are in the identity",
    **dict.fromkeys(("compile", "compile_modules", "attention_kernels"), "other kernels compute the same"),
    **dict.fromkeys(("memory_format", "deterministic", "cudnn_benchmark"), "other kernels compute the same"),
    **dict.fromkeys(("activation_checkpointing", "checkpoint_modules", "checkpoint_keeps"), "computes the same again"),
    **dict.fromkeys(("ddp", "parallel"), "how the ranks share the work; the samples of a step are in the identity"),
    **dict.fromkeys(("num_workers", "process_group_timeout"), "the batches are the same"),
    **dict.fromkeys(("checkpoint_freq", "checkpoint_in_background", "checksum_freq"), "what is written, and when"),
    **dict.fromkeys(("log_freq", "warmup_steps", "profile", "sinks"), "what is written, and when"),
}


def hash_file(path: Path) -> Path:
    """The path of a checkpoint's hashes, as sha256sum writes them."""
    return path.with_name(f"{path.name}.sha256")


def hashes(path: Path) -> dict[str, str]:
    """The hash of each file of a checkpoint, by the name of the file. Names are those below the checkpoint's parent."""
    lines = hash_file(path).read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def identity(config: Mapping[str, Any], size: int) -> dict[str, Any]:
    """What a resumed training must not change, by configuration key. `size`: number of ranks."""
    return {**computed(config), "nnodes x nproc": size}


def computed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Configuration key → value, of all that changes the numbers of a training, except the number of ranks.

    Paths below data_dir are named from there: the data may lie elsewhere today.
    """
    settings = [setting.name for setting in fields(Settings) if setting.name not in OTHERWISE]
    found = {key: config[key] for key in (*RUN, *settings) if key in config}
    return {**found, **{key: _without_kernels(config.get(key), config.get("data_dir")) for key in PARTS}}


def _without_kernels(value: Any, data_dir: str | None) -> Any:
    """A part as every form of a checkpoint keeps it, without arguments that choose how to compute."""
    if isinstance(value, Mapping):
        kept = {str(name): item for name, item in value.items() if name not in KERNELS}
        return {name: _without_kernels(item, data_dir) for name, item in kept.items()}
    if isinstance(value, (list, tuple)):
        return [_without_kernels(item, data_dir) for item in value]
    if isinstance(value, str) and data_dir:
        is_below = f"{value}/".startswith(f"{data_dir.rstrip('/')}/")
        return value.replace(data_dir, "<data_dir>", 1) if is_below else value
    return value


def check_identity(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another training, with a ConfigError.

    Settings that an older checkpoint does not hold are not compared. The revision of older cases is 1. An open training
    may go on from a closed one.

    Args:
        saved: `identity` of the training that wrote the checkpoint.
        wanted: `identity` of the training that is to go on.
    """
    saved = {"revision": 1, **saved}
    shared = [key for key in wanted if key in saved]
    before, now = (dict(_keys("", {key: side[key] for key in shared})) for side in (saved, wanted))
    for key in {**now, **before}:
        if before.get(key) != now.get(key) and (key, now.get(key)) != ("division", "open"):
            raise ConfigError(
                "the checkpoint belongs to another training",
                where=str(path),
                key=key,
                given=now.get(key),
                allowed=repr(before.get(key)),
                advice=_advice(key),
            )


def check_form(path: Path, *, in_parts: bool) -> None:
    """Refuse a checkpoint of the form that another kind of strategy writes.

    Args:
        in_parts: whether the strategy reads a folder to which every rank wrote its part.

    Raises:
        ConfigError: the checkpoint has the other form.
    """
    if (path.suffix == ".dcp") != in_parts:
        names = ("Sharded, by which every rank writes its part", "DDP, by which rank 0 writes the whole")
        reader, writer = names if in_parts else names[::-1]
        raise ConfigError(
            "the checkpoint was written by another strategy",
            where=str(path),
            key="parallel._target_",
            given=reader,
            allowed=writer,
            advice="resume with the strategy of the earlier run, or start again without resume",
        )


def _advice(key: str) -> str | None:
    if key == "division":
        return "resume with division=open, or start again without resume"
    if key.partition(".")[0] in RECIPE:
        return "start again without resume, to train with another recipe"
    return "start again without resume" if key.partition(".")[0] in PARTS else None


def _keys(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Dotted keys and values."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _keys(f"{key}.{name}" if key else str(name), item)
    else:
        yield key, value
