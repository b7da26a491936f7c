"""Tensors of a file of torch.save as arrays of NumPy, for frameworks whose processes have no torch.

The format since PyTorch 1.6: a zip archive with `<name>/data.pkl`, a pickle of the object in which a tensor names its
storage, and `<name>/data/<key>`, the bytes of each storage. The reader calls only the classes that are listed here.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STORAGES: Mapping[str, str] = {  # class in torch → NumPy's type of its numbers
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


def read(path: Path | str) -> Any:
    """The object of a file, its tensors as arrays.

    Raises:
        pickle.UnpicklingError: the file holds other objects than tensors, containers and plain values.
        zipfile.BadZipFile: the file has another format.
    """
    with zipfile.ZipFile(path) as archive:
        pickled = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
        if pickled is None:
            raise zipfile.BadZipFile("no data.pkl in it")
        with archive.open(pickled) as file:
            return _Reader(file, archive, pickled[: -len("data.pkl")]).load()


class _Reader(pickle.Unpickler):
    """Reads storages out of the archive, each once."""

    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(file, encoding="utf-8")
        self.archive, self.folder = archive, folder
        self.storages: dict[str, NDArray[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """An allowed class. Raises UnpicklingError for any other."""
        allowed: Mapping[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"the file holds a {module}.{name}")
        return allowed[module, name]

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        """The storage that a tensor names."""
        _, kind, key, *_ = pid
        if key not in self.storages:
            self.storages[key] = np.frombuffer(self.archive.read(f"{self.folder}data/{key}"), dtype=kind)
        return self.storages[key]


def _tensor(storage: NDArray[Any], offset: int, size: Sequence[int], stride: Sequence[int], *_: Any) -> NDArray[Any]:
    """A tensor as a view of its storage; offset and strides count numbers."""
    width = storage.itemsize
    return np.ndarray(size, storage.dtype, storage, offset * width, [step * width for step in stride])
