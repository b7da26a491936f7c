"""The state of a training in a checkpoint: read from the newest that is whole, and written as arrays in NumPy's format.

`identity`, `progress` (fields of a Position) and `random` (state of each rank's generators) are there in any format.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Callable, NamedTuple

import numpy as np

from flagperf.contract.checkpoint import check_identity, identity
from flagperf.trainer.checkpoints.files import newest_whole, reading
from flagperf.trainer.ranks import Ranks

log = logging.getLogger(__name__)

TRAINING = "training"  # the array with the text of what is no array
RANDOM = "random"  # … and that with the generators' states, [rank, …]


class Saved(NamedTuple):
    """The content of a checkpoint, and what to know of the checkpoints, in words."""

    name: str  # of the file
    notes: tuple[str, ...]
    state: Mapping[str, Any]


def read_newest(config: Mapping[str, Any], size: int, ranks: Ranks, read: Callable[[Path], Mapping[str, Any]]) -> Saved:
    """The newest checkpoint of the folder `resume` that is whole.

    Args:
        size: ranks of the job.
        ranks: those that look for it together.
        read: reads a file. It may raise what `files.reading` knows.

    Raises:
        ConfigError: no checkpoint is whole, or it belongs to another training.
    """
    path, notes = newest_whole(Path(config["resume"]), ranks)
    for note in notes:
        log.warning("resume: %s", note)
    with reading(path):
        state = read(path)
        check_identity(path, state["identity"], identity(config, size))
    return Saved(path.name, notes, state)


def write_arrays(file: BinaryIO, state: Mapping[str, Any]) -> None:
    """Write a state whose `arrays` are named, and whose `random` is an array for each rank, or None for each."""
    told = {name: state[name] for name in ("identity", "progress")}
    arrays: dict[str, Any] = {**state["arrays"], TRAINING: np.asarray(json.dumps(told))}
    if state["random"][0] is not None:
        arrays[RANDOM] = np.stack(state["random"])
    np.savez(file, **arrays)


def read_arrays(path: Path) -> dict[str, Any]:
    """The state that `write_arrays` wrote."""
    with np.load(path) as file:
        arrays = dict(file)
    told = json.loads(str(arrays.pop(TRAINING)))
    return {**told, "random": arrays.pop(RANDOM, None), "arrays": arrays}
