"""The weights that a training starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from paddle import nn

from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints.misfits import check_fit
from flagperf.trainer.checkpoints.torch_file import read as read_torch
from flagperf.trainer.paddle.task import Task


def load_weights(network: nn.Layer, task: Task, path: str) -> None:
    """Fill the network from the file of `init_checkpoint`.

    Raises:
        ConfigError: the file cannot be read, or its names or shapes are not those of the network.
    """
    if not Path(path).is_file():
        raise ConfigError("no such file", where="config.yaml", key="init_checkpoint", given=path)
    try:
        content = read(path)
    except Exception as error:  # which one depends on where the file is damaged
        raise ConfigError(
            "cannot read the weights",
            where=path,
            key="init_checkpoint",
            given=f"a file that is damaged or holds other objects ({type(error).__name__})",
            allowed="a file of torch.save since PyTorch 1.6, or NumPy's .npz, with arrays and plain values only",
        ) from error
    given = task.initial_weights(content)
    check_fit(path, given, network.state_dict())
    network.set_state_dict(dict(given))


def read(path: str) -> Any:
    """Arrays by name, of an .npz file or of one of torch.save."""
    if Path(path).suffix != ".npz":
        return read_torch(path)
    with np.load(path) as arrays:
        return dict(arrays)
