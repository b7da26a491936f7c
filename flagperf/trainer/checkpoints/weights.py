"""The weights that a training starts from: a file of arrays, or of another framework, that must fit the network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

import numpy as np

from flagperf.errors import ConfigError
from flagperf.trainer.checkpoints import torch_file

ARRAYS = "a file of torch.save since PyTorch 1.6, or NumPy's .npz, with arrays and plain values only"


def read_arrays(path: str) -> Any:
    """Arrays by name, of an .npz file or of one of torch.save."""
    if Path(path).suffix != ".npz":
        return torch_file.read(path)
    with np.load(path) as arrays:
        return dict(arrays)


def read_weights(path: str, read: Callable[[str], Any] = read_arrays, allowed: str = ARRAYS) -> Any:
    """The content of the file of `init_checkpoint`.

    Args:
        read: reads a file.
        allowed: the files that `read` reads, for a message.

    Raises:
        ConfigError: there is no such file, or it cannot be read.
    """
    if not Path(path).is_file():
        raise ConfigError("no such file", where="config.yaml", key="init_checkpoint", given=path)
    try:
        return read(path)
    except Exception as error:  # readers raise different errors for different damage
        raise ConfigError(
            "cannot read the weights",
            where=path,
            key="init_checkpoint",
            given=f"a file that is damaged or holds other objects ({type(error).__name__})",
            allowed=allowed,
        ) from error


def check_fit(path: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse weights whose names or shapes differ from those of the network, with a ConfigError.

    Args:
        path: of the file, for the message.
        given, wanted: tensors or arrays by name, with `shape`.
    """
    misfits = [
        *(f"missing: {name}" for name in wanted if name not in given),
        *(f"not in the network: {name}" for name in given if name not in wanted),
        *(
            f"shape of {name}: {list(given[name].shape)}, the network has {list(wanted[name].shape)}"
            for name in wanted
            if name in given and list(given[name].shape) != list(wanted[name].shape)
        ),
    ]
    if misfits:
        more = f" … and {len(misfits) - 5} more" if len(misfits) > 5 else ""
        raise ConfigError(
            "the weights do not fit the network",
            where=path,
            key="init_checkpoint",
            given="; ".join(misfits[:5]) + more,
            advice="use the checkpoint that belongs to this case and size",
        )
