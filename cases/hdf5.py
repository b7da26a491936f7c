"""Opens the HDF5 files of data sets."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import h5py

from flagperf.errors import ConfigError


def open_hdf5(path: str | Path, keys: Collection[str], advice: str) -> Any:
    """The open file, which is also a context manager.

    Args:
        keys: names of the arrays that the file must have.
        advice: for a file that cannot be read.

    Raises:
        ConfigError: the file is missing, unreadable, or lacks an array.
    """
    try:
        file = h5py.File(path, "r")
    except FileNotFoundError:
        raise ConfigError("no such file in the data set", where=str(path), key="data_dir") from None
    except OSError as error:
        size = Path(path).stat().st_size
        raise ConfigError(
            "cannot read the HDF5 file", where=str(path), given=f"{size} bytes; {error}", advice=advice
        ) from None
    if missing := [key for key in keys if key not in file]:
        raise ConfigError(
            "the HDF5 file lacks some of its arrays",
            where=str(path),
            given=", ".join(sorted(file)) or "none",
            allowed=", ".join(keys),
            advice=f"missing: {', '.join(missing)}",
        )
    return file
