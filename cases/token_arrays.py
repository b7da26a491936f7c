"""Tokenised samples in NumPy's .npz files, as FlagPerf publishes them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any, Dict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from flagperf.errors import ConfigError


class TokenArrays(Dataset[Dict[str, Tensor]]):
    """Samples of int64, one row of each array.

    Args:
        path: an .npz file with one array for each name of `ranges`, each with as many rows.
        ranges: array → its least and its largest value.
    """

    def __init__(self, path: str, ranges: Mapping[str, tuple[int, int]]) -> None:
        try:
            with np.load(path) as file:
                self.arrays = {name: _in_range(path, name, file[name], *ranges[name]) for name in ranges}
        except FileNotFoundError:
            raise ConfigError("no such file in the data set", where=path, key="data_dir") from None
        except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
            allowed = f"an .npz file with {', '.join(ranges)}"
            raise ConfigError(
                "this file does not have the arrays of the case",
                where=path,
                key="data_dir",
                given=error,
                allowed=allowed,
            ) from None

    def __len__(self) -> int:
        return min(map(len, self.arrays.values()))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: torch.from_numpy(np.array(array[index], np.int64)) for name, array in self.arrays.items()}


def _in_range(path: str, name: str, array: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    """The array in the smallest type that holds its range: published files have eight bytes for each value."""
    if not len(array) or array.min() < low or array.max() > high:
        raise ConfigError(
            f"the values of {name} in this file are not the case's",
            where=path,
            key="data_dir",
            given=f"{array.min()} to {array.max()}" if len(array) else "no sample",
            allowed=f"{low} to {high}",
        )
    return array.astype(np.result_type(np.min_scalar_type(low), np.min_scalar_type(high)))
