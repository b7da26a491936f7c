"""Checkpoints: all that a training needs to go on as if it had not been interrupted."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from flagperf.errors import ConfigError
from flagperf.trainer.agenda import Position
from flagperf.trainer.pytorch.checkpoint_files import newest_whole, save
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.randomness import random_state

log = logging.getLogger(__name__)


class Resumed(NamedTuple):
    """Where a training goes on, this rank's random state there, and what to know of the checkpoints, in words."""

    position: Position
    random_state: dict[str, Any] | None
    notes: tuple[str, ...] = ()


def checkpoint_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this training's checkpoints: one a round, beside the log folders of its nodes."""
    if "FLAGPERF_CHECKPOINT_DIR" in environment:
        return Path(environment["FLAGPERF_CHECKPOINT_DIR"])
    return Path(environment.get("FLAGPERF_LOG_DIR", "log")).parent / "checkpoint"


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


def restore(parts: Parts, folder: str) -> Resumed:
    """Bring all parts to the newest checkpoint of a folder that is whole, the same one on every rank.

    Raises:
        ConfigError: no checkpoint is whole, or it belongs to another training.
    """
    path, notes = newest_whole(Path(folder), parts.world)
    for note in notes:
        log.warning("resume: %s", note)
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    _check_identity(path, state, _identity(parts))
    for name, part in _stateful(parts):
        part.load_state_dict(state[name])
    return Resumed(Position(**state["progress"]), state["random"][parts.world.rank], notes)


def _check_identity(path: Path, state: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another training. `identity`: what must be the same, by configuration key."""
    found = {"revision": 1, **state["identity"]}  # a checkpoint from before cases had revisions has none
    for key, value in identity.items():
        if found[key] != value:
            raise ConfigError(
                "the checkpoint belongs to another training",
                where=str(path),
                key=key,
                given=value,
                allowed=repr(found[key]),
            )


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
