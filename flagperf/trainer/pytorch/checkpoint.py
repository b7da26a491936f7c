"""Checkpoints: all that a training needs to go on as if it had not been interrupted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from flagperf.errors import ConfigError
from flagperf.trainer.agenda import Position
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.randomness import random_state

KEPT = 2  # checkpoints in a folder: where the newest is damaged, there is one before it


def checkpoint_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this training's checkpoints: one a round, beside the log folders of its nodes."""
    if "FLAGPERF_CHECKPOINT_DIR" in environment:
        return Path(environment["FLAGPERF_CHECKPOINT_DIR"])
    return Path(environment.get("FLAGPERF_LOG_DIR", "log")).parent / "checkpoint"


def save(folder: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Write `step<step>.pt`, whole or not at all; then remove all checkpoints but the newest two."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step{step:09d}.pt"
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save(dict(state), file)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    for old in _checkpoints(folder)[:-KEPT]:
        old.unlink()
    return path


def load(folder: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Read the newest checkpoint of a folder.

    Args:
        identity: what must be the same for the training to go on in the same way, by configuration key.

    Raises:
        ConfigError: there is no checkpoint, or it belongs to another training.
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
    state: dict[str, Any] = torch.load(checkpoints[-1], map_location="cpu", weights_only=True)
    found = {"revision": 1, **state["identity"]}  # a checkpoint from before cases had revisions has none
    for key, value in identity.items():
        if found[key] != value:
            raise ConfigError(
                "the checkpoint belongs to another training",
                where=str(checkpoints[-1]),
                key=key,
                given=value,
                allowed=repr(found[key]),
            )
    return state


def snapshot(parts: Parts, position: Position) -> None:
    """Write a checkpoint. It is complete when the call returns, on every rank."""
    for network in dict.fromkeys((parts.network, parts.evaluated)):
        parts.world.copy_buffers(network)
    random_states = parts.world.gather(random_state(parts.device))
    if parts.world.rank == 0:
        state = {name: part.state_dict() for name, part in _stateful(parts)}
        state |= {"identity": _identity(parts), "progress": asdict(position), "random": random_states}
        save(checkpoint_folder(), position.step, state)
    parts.world.wait()


def restore(parts: Parts, folder: str) -> tuple[Position, dict[str, Any]]:
    """Bring all parts to the newest checkpoint of a folder: its position, and this rank's random state."""
    state = load(folder, _identity(parts))
    for name, part in _stateful(parts):
        part.load_state_dict(state[name])
    return Position(**state["progress"]), state["random"][parts.world.rank]


def _stateful(parts: Parts) -> list[tuple[str, Any]]:
    named = {
        "network": parts.network,
        "average": parts.average,
        "optimizer": parts.optimizer,
        "scheduler": parts.scheduler,
        "scaler": parts.precision.scaler,
    }
    return [(name, part) for name, part in named.items() if part is not None]


def _identity(parts: Parts) -> dict[str, Any]:
    """What must not change for a resumed training to go on in the same way."""
    keys = ("case", "revision", "size", "train_batch_size", "gradient_accumulation_steps", "seed", "precision", "ema")
    return {key: parts.config[key] for key in (*keys, "synthetic")} | {"nnodes x nproc": parts.world.size}


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step*.pt"))
