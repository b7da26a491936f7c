"""Checkpoints: the complete state of a training, to go on as without an interruption."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flagperf.trainer.checkpoints.files import checkpoint_folder, newest_intact
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.engine import Resumed
from flagperf.trainer.pytorch.adapter import check_frozen
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.randomness import random_state

log = logging.getLogger(__name__)


def snapshot(parts: Parts, position: Position) -> None:
    """Write a checkpoint. It is complete when the call returns, on every rank; not with `checkpoint_in_background`."""
    for network in dict.fromkeys((parts.network, parts.evaluated)):
        parts.strategy.copy_buffers(network)
    random_states = parts.world.gather(random_state(parts.device))
    values = {"identity": parts.strategy.identity(parts.config), "progress": asdict(position), "random": random_states}
    if parts.frozen is not None:
        values["frozen"] = parts.frozen
    parts.strategy.save(checkpoint_folder(), position.step, _stateful(parts), values)
    parts.world.wait()


def restore(parts: Parts, folder: str) -> tuple[Resumed, Mapping[str, Any] | None]:
    """Restore all parts from the newest intact checkpoint of a folder, the same one on every rank.

    Returns:
        The position where the training goes on, and this rank's random state; None with another number of ranks.

    Raises:
        ConfigError: no checkpoint is intact, or it belongs to another training.
    """
    path, notes = newest_intact(Path(folder), parts.world)
    for note in notes:
        log.warning("resume: %s", note)
    values = parts.strategy.load(path, _stateful(parts), parts.strategy.identity(parts.config))
    check_frozen(str(path), values.get("frozen"), parts.frozen)
    position, states = Position(**values["progress"]), values["random"]
    if len(states) == parts.world.size:
        return Resumed(position, notes), states[parts.world.rank]
    note = "there are more or fewer ranks: the random numbers that they draw, as for dropout, begin anew"
    return Resumed(position, (*notes, note)), None


def _stateful(parts: Parts) -> dict[str, Any]:
    """The parts that have a state, by name."""
    by_name = {
        "network": parts.network,
        "average": parts.average,
        "optimizer": parts.optimizer,
        "scheduler": parts.scheduler,
        "scaler": parts.precision.scaler,
    }
    return {name: part for name, part in by_name.items() if part is not None}
