"""The files of checkpoints: where they lie, whole or not at all, and to which training they belong."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flagperf.errors import ConfigError

KEPT = 2  # checkpoints in a folder: where the newest is damaged, there is one before it

SAME = ("case", "revision", "size", "train_batch_size", "gradient_accumulation_steps", "seed", "precision", "ema")


def checkpoint_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this training's checkpoints: one a round, beside the log folders of its nodes."""
    if "FLAGPERF_CHECKPOINT_DIR" in environment:
        return Path(environment["FLAGPERF_CHECKPOINT_DIR"])
    return Path(environment.get("FLAGPERF_LOG_DIR", "log")).parent / "checkpoint"


def save(folder: Path, step: int, write: Callable[[Any], None]) -> Path:
    """Let `write` fill the open file `step<step>.pt`, whole or not at all; then keep the newest two checkpoints only.

    Frameworks write files of their own formats under that name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step{step:09d}.pt"
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    for old in _checkpoints(folder)[:-KEPT]:
        old.unlink()
    return path


def newest(folder: str) -> Path:
    """The newest checkpoint of a folder.

    Raises:
        ConfigError: there is none.
    """
    checkpoints = _checkpoints(Path(folder))
    if not checkpoints:
        raise ConfigError(
            "no checkpoint to resume from",
            where=folder,
            key="resume",
            allowed="a folder with step<N>.pt files, readable on every node",
            advice="set checkpoint_freq in the run that is to be resumed later",
        )
    return checkpoints[-1]


def identity(config: Mapping[str, Any], size: int) -> dict[str, Any]:
    """What must not change for a resumed training to go on in the same way, by configuration key. `size`: ranks."""
    return {key: config[key] for key in (*SAME, "synthetic")} | {"nnodes x nproc": size}


def check_identity(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another training, with a ConfigError."""
    found = {"revision": 1, **found}  # a checkpoint from before cases had revisions has none
    for key, value in wanted.items():
        if found[key] != value:
            raise ConfigError(
                "the checkpoint belongs to another training",
                where=str(path),
                key=key,
                given=value,
                allowed=repr(found[key]),
            )


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step*.pt"))
