"""The weights that a training starts from."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np

from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints.misfits import check_fit
from flagperf.trainer.tensorflow2.task import Task


def load_weights(network: keras.Model, task: Task, path: str) -> None:
    """Fill the network from the file of `init_checkpoint`, an .npz file with its weights by their paths.

    Raises:
        ConfigError: the file cannot be read, or its names or shapes are not those of the network.
    """
    if not Path(path).is_file():
        raise ConfigError("no such file", where="config.yaml", key="init_checkpoint", given=path)
    try:
        with np.load(path) as file:
            arrays = dict(file)
    except Exception as error:  # which one depends on where the file is damaged
        raise ConfigError(
            "cannot read the weights",
            where=path,
            key="init_checkpoint",
            given=f"a file that is damaged or holds other objects ({type(error).__name__})",
            allowed="NumPy's .npz, with arrays only",
        ) from error
    given = task.initial_weights(arrays)
    wanted = {weight.path: weight for weight in network.weights}
    check_fit(path, given, wanted)
    for name, weight in wanted.items():
        weight.assign(given[name])
