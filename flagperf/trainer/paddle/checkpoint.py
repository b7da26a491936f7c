"""Checkpoints: all that a training needs to go on as if it had not been interrupted."""

from __future__ import annotations

import io
import logging
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from flagperf.contract.checkpoint import check_identity, identity
from flagperf.trainer.checkpoints.files import Alone, checkpoint_folder, newest_whole, reading, save
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.paddle.pickled import check_pickle
from flagperf.trainer.ranks import Ranks

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint."""

    name: str  # of the file
    notes: tuple[str, ...]  # what to know of the checkpoints, in words
    position: Position
    states: Mapping[str, Any]  # of the parts, by name
    random: Mapping[str, Any]  # of the generators of this rank


def snapshot(config: Mapping[str, Any], ranks: Ranks, parts: Mapping[str, Any], position: Position) -> None:
    """Write a checkpoint of the parts, by name. It is complete when the call returns, on every rank."""
    random_states = ranks.gather(random_state())
    if ranks.rank == 0:
        state = {name: part.state_dict() for name, part in parts.items()}
        state.update(identity=identity(config, ranks.size), progress=asdict(position), random=random_states)
        content = io.BytesIO()
        paddle.save(state, content)
        save(checkpoint_folder(), position.step, lambda file: file.write(content.getbuffer()))
    ranks.wait()


def load(config: Mapping[str, Any], ranks: Ranks) -> Saved:
    """Read the newest checkpoint of the folder `resume` that is whole, as this rank sees it.

    Raises:
        ConfigError: no checkpoint is whole, or it belongs to another training.
    """
    path, notes = newest_whole(Path(config["resume"]), Alone(ranks.rank))
    for note in notes:
        log.warning("resume: %s", note)
    with reading(path):
        check_pickle(path)
        state = paddle.load(str(path))
        check_identity(path, state["identity"], identity(config, ranks.size))
    return Saved(path.name, notes, Position(**state["progress"]), state, state["random"][ranks.rank])


def restore(parts: Mapping[str, Any], saved: Saved) -> None:
    """Bring the parts to a checkpoint, by name."""
    for name, part in parts.items():
        fill = getattr(part, "set_state_dict", None) or part.load_state_dict
        fill(saved.states[name])


def random_state() -> dict[str, Any]:
    """State of all generators of this process."""
    return {"python": random.getstate(), "numpy": np.random.get_state(), "paddle": paddle.get_rng_state()}


def set_random_state(state: Mapping[str, Any]) -> None:
    """Continue from a state that `random_state` gave."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    paddle.set_rng_state(state["paddle"])
