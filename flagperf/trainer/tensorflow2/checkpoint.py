"""Checkpoints: all that a training needs to go on as if it had not been interrupted.

A file holds the arrays of all variables, in NumPy's format: those of the network, generators of its dropout included,
and of the optimizer, its count of steps included. Order and augmentation of the data depend on the position only.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flagperf.contract.checkpoint import check_identity, identity
from flagperf.trainer.checkpoints.files import checkpoint_folder, newest_whole, reading, save
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.ranks import Ranks

log = logging.getLogger(__name__)

TRAINING = "training"  # the array with the text of what is no variable


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint."""

    notes: tuple[str, ...]  # what to know of the checkpoints, in words
    position: Position
    variables: Mapping[str, NDArray[Any]]  # by "<part>/<number>"


def snapshot(config: Mapping[str, Any], ranks: Ranks, parts: Mapping[str, Any], position: Position) -> None:
    """Write a checkpoint of the parts, by name. It is complete when the call returns, on every rank."""
    if ranks.rank == 0:
        told = {"identity": identity(config, ranks.size), "progress": asdict(position)}
        arrays: dict[str, Any] = {name: np.asarray(variable) for name, variable in variables_of(parts).items()}
        arrays[TRAINING] = np.asarray(json.dumps(told))
        content = io.BytesIO()  # NumPy goes back in a file, to fill in sizes
        np.savez(content, **arrays)
        save(checkpoint_folder(), position.step, lambda file: file.write(content.getbuffer()))
    ranks.wait()


def load(config: Mapping[str, Any], ranks: Ranks) -> Saved:
    """Read the newest checkpoint of the folder `resume` that is whole, the same one on every rank.

    Raises:
        ConfigError: no checkpoint is whole, or it belongs to another training.
    """
    path, notes = newest_whole(Path(config["resume"]), ranks)
    for note in notes:
        log.warning("resume: %s", note)
    with reading(path):
        with np.load(path) as file:
            arrays = dict(file)
        told = json.loads(str(arrays.pop(TRAINING)))
        check_identity(path, told["identity"], identity(config, ranks.size))
    return Saved(notes, Position(**told["progress"]), arrays)


def restore(parts: Mapping[str, Any], saved: Saved) -> None:
    """Bring the parts to a checkpoint, by name."""
    for name, variable in variables_of(parts).items():
        variable.assign(saved.variables[name])


def variables_of(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of Keras's models and optimizers, which they always have in the same order."""
    return {f"{name}/{number}": one for name, part in parts.items() for number, one in enumerate(part.variables)}
