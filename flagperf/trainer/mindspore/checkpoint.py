"""Checkpoints: all that a training needs to go on as if it had not been interrupted.

A file holds arrays in NumPy's format: the parameters of network and optimizer, its count of steps included, those of
the loss scale, and the state of each rank's generator. Order and augmentation of the data depend on the position only.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindspore import Parameter, Tensor
from numpy.typing import NDArray

from flagperf.contract.checkpoint import check_identity, identity
from flagperf.trainer.checkpoints.files import Alone, checkpoint_folder, newest_whole, reading, save
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.ranks import Ranks

log = logging.getLogger(__name__)

TRAINING = "training"  # the array with the text of what is no parameter
RANDOM = "random"  # … and that with the generators' states, [rank, …]


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint."""

    name: str  # of the file
    notes: tuple[str, ...]  # what to know of the checkpoints, in words
    position: Position
    parameters: Mapping[str, NDArray[Any]]
    random: NDArray[Any]  # state of this rank's generator


def snapshot(config: Mapping[str, Any], ranks: Ranks, parameters: Mapping[str, Parameter], position: Position) -> None:
    """Write a checkpoint. It is complete when the call returns, on every rank."""
    random = ranks.gather(mindspore.get_rng_state().asnumpy())
    if ranks.rank == 0:
        told = {"identity": identity(config, ranks.size), "progress": asdict(position)}
        arrays: dict[str, Any] = {name: parameter.asnumpy() for name, parameter in parameters.items()}
        arrays.update({TRAINING: np.asarray(json.dumps(told)), RANDOM: np.stack(random)})
        content = io.BytesIO()  # NumPy goes back in a file, to fill in sizes
        np.savez(content, **arrays)
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
        with np.load(path) as file:
            arrays = dict(file)
        told = json.loads(str(arrays.pop(TRAINING)))
        check_identity(path, told["identity"], identity(config, ranks.size))
    random = arrays.pop(RANDOM)[ranks.rank]
    return Saved(path.name, notes, Position(**told["progress"]), arrays, random)


def restore(parameters: Mapping[str, Parameter], saved: Saved) -> None:
    """Bring the parameters to a checkpoint."""
    for name, parameter in parameters.items():
        parameter.set_data(Tensor(saved.parameters[name], parameter.dtype))
