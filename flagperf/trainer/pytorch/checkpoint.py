"""Checkpoints: all that a training needs to go on as if it had not been interrupted."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from flagperf.trainer.agenda import Position
from flagperf.trainer.checkpoints import check_identity, checkpoint_folder, identity, newest_whole, save
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.randomness import random_state

log = logging.getLogger(__name__)


class Resumed(NamedTuple):
    """Where a training goes on, this rank's random state there, and what to know of the checkpoints, in words."""

    position: Position
    random_state: dict[str, Any] | None
    notes: tuple[str, ...] = ()


def snapshot(parts: Parts, position: Position) -> None:
    """Write a checkpoint. It is complete when the call returns, on every rank."""
    for network in dict.fromkeys((parts.network, parts.evaluated)):
        parts.world.copy_buffers(network)
    random_states = parts.world.gather(random_state(parts.device))
    if parts.world.rank == 0:
        state = {name: part.state_dict() for name, part in _stateful(parts)}
        own = {"identity": identity(parts.config, parts.world.size), "progress": asdict(position)}
        state.update(own, random=random_states)
        save(checkpoint_folder(), position.step, lambda file: torch.save(state, file))
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
    check_identity(path, state["identity"], identity(parts.config, parts.world.size))
    for name, part in _stateful(parts):
        part.load_state_dict(state[name])
    return Resumed(Position(**state["progress"]), state["random"][parts.world.rank], notes)


def _stateful(parts: Parts) -> list[tuple[str, Any]]:
    named = {
        "network": parts.network,
        "average": parts.average,
        "optimizer": parts.optimizer,
        "scheduler": parts.scheduler,
        "scaler": parts.precision.scaler,
    }
    return [(name, part) for name, part in named.items() if part is not None]
