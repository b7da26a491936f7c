"""The state of a training in a checkpoint: read from the newest intact one, and written as arrays in NumPy's format.

Every format holds `identity`, `progress` (fields of a Position) and `random` (states of each rank's generators).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Callable, NamedTuple

import numpy as np

from flagperf.contract.checkpoint import check_identity, identity
from flagperf.trainer.checkpoints.files import newest_intact, reading
from flagperf.trainer.ranks import Ranks

log = logging.getLogger(__name__)

TRAINING = "training"  # the array with the text of `identity` and `progress`
RANDOM = "random"  # the array with the generators' states, [rank, …]


class SavedState(NamedTuple):
    """The content of a checkpoint, and notes about this checkpoint and damaged ones."""

    name: str  # of the file
    notes: tuple[str, ...]
    state: Mapping[str, Any]


def read_newest(
    config: Mapping[str, Any], size: int, ranks: Ranks, read: Callable[[Path], Mapping[str, Any]]
) -> SavedState:
    """The newest intact checkpoint of the folder `resume`.

    Args:
        size: ranks of the job.
        ranks: the ranks that choose it together.
        read: reads a file. It may raise the errors that `files.reading` handles.

    Raises:
        ConfigError: no checkpoint is intact, or it belongs to another training.
    """
    path, notes = newest_intact(Path(config["resume"]), ranks)
    for note in notes:
        log.warning("resume: %s", note)
    with reading(path):
        state = read(path)
        check_identity(path, state["identity"], identity(config, size))
    return SavedState(path.name, notes, state)


def write_arrays(file: BinaryIO, state: Mapping[str, Any]) -> None:
    """Write a state whose `arrays` are named, and whose `random` is an array for each rank, or None for each."""
    values = {name: state[name] for name in ("identity", "progress")}
    arrays: dict[str, Any] = {**state["arrays"], TRAINING: np.asarray(json.dumps(values))}
    if state["random"][0] is not None:
        arrays[RANDOM] = np.stack(state["random"])
    np.savez(file, **arrays)


def read_arrays(path: Path) -> dict[str, Any]:
    """The state that `write_arrays` wrote."""
    with np.load(path) as file:
        arrays = dict(file)
    values = json.loads(str(arrays.pop(TRAINING)))
    return {**values, "random": arrays.pop(RANDOM, None), "arrays": arrays}
