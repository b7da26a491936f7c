"""Checkpoints: all that a training needs to go on as if it had not been interrupted."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from flagperf.trainer.checkpoints.files import checkpoint_folder, newest_whole
from flagperf.trainer.loop.agenda import Position
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
    own = {"identity": parts.strategy.identity(parts.config), "progress": asdict(position), "random": random_states}
    parts.strategy.save(checkpoint_folder(), position.step, _stateful(parts), own)
    parts.world.wait()


def restore(parts: Parts, folder: str) -> Resumed:
    """Bring all parts to the newest checkpoint of a folder that is whole, the same one on every rank.

    Raises:
        ConfigError: no checkpoint is whole, or it belongs to another training.
    """
    path, notes = newest_whole(Path(folder), parts.world)
    for note in notes:
        log.warning("resume: %s", note)
    own = parts.strategy.load(path, _stateful(parts), parts.strategy.identity(parts.config))
    if len(own["random"]) != parts.world.size:
        notes = (*notes, "there are more or fewer ranks: the random numbers that they draw, as for dropout, begin anew")
        return Resumed(Position(**own["progress"]), None, notes)
    return Resumed(Position(**own["progress"]), own["random"][parts.world.rank], notes)


def _stateful(parts: Parts) -> dict[str, Any]:
    """The parts that have a state, by name."""
    named = {
        "network": parts.network,
        "average": parts.average,
        "optimizer": parts.optimizer,
        "scheduler": parts.scheduler,
        "scaler": parts.precision.scaler,
    }
    return {name: part for name, part in named.items() if part is not None}
