"""Checkpoints for launcher and ranks: their forms, and the settings that a resumed training must share with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError

CHECKPOINTS = "checkpoint"  # folder of a round
FORMS = ("step*.pt", "step*.dcp")  # a file; a folder
SAME = ("case", "revision", "size", "train_batch_size", "gradient_accumulation_steps", "seed", "precision", "ema")
RECIPE = ("lr", "lr_interval", "clip_grad", "adapter", "optimizer", "lr_scheduler")  # how the weights are updated
KERNELS = ("fused", "foreach", "capturable", "differentiable")  # of an optimizer: its update stays the same


def hash_file(path: Path) -> Path:
    """The path of a checkpoint's hashes, as sha256sum writes them."""
    return path.with_name(f"{path.name}.sha256")


def hashes(path: Path) -> dict[str, str]:
    """The hash of each file of a checkpoint, by the name of the file. Names are those below the checkpoint's parent."""
    lines = hash_file(path).read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def identity(config: Mapping[str, Any], size: int) -> dict[str, Any]:
    """The settings that a resumed training must not change, by configuration key. `size`: number of ranks."""
    return {**{key: config[key] for key in (*SAME, "synthetic")}, "nnodes x nproc": size, **recipe(config)}


def recipe(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by which the weights are updated, by configuration key, without those that only choose a kernel."""
    optimizer = {name: value for name, value in config["optimizer"].items() if name not in KERNELS}
    return {**{key: config.get(key) for key in RECIPE}, "optimizer": optimizer}


def check_identity(path: Path, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another training, with a ConfigError.

    Settings that an older checkpoint does not hold are not compared. The revision of older cases is 1.

    Args:
        saved: `identity` of the training that wrote the checkpoint.
        wanted: `identity` of the training that is to go on.
    """
    saved = {"revision": 1, **saved}
    shared = [key for key in wanted if key in saved]
    before, now = (dict(_keys("", {key: side[key] for key in shared})) for side in (saved, wanted))
    for key in {**now, **before}:
        if before.get(key) != now.get(key):
            raise ConfigError(
                "the checkpoint belongs to another training",
                where=str(path),
                key=key,
                given=now.get(key),
                allowed=repr(before.get(key)),
                advice="start again without resume, to train with another recipe" if _is_recipe(key) else None,
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


def _keys(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of the recipe; each other setting is one value."""
    if isinstance(value, Mapping) and (not key or _is_recipe(key)):
        for name, item in value.items():
            yield from _keys(f"{key}.{name}" if key else str(name), item)
    else:
        yield key, value


def _is_recipe(key: str) -> bool:
    return key.partition(".")[0] in RECIPE
