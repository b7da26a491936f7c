"""Checks a file before paddle.load, which makes any object that a pickle names."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

KNOWN = {  # classes that paddle.save writes for tensors, random states and plain values
    "builtins": ("tuple",),
    "collections": ("OrderedDict",),
    "numpy": ("ndarray", "dtype"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),  # NumPy 1
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
}
RANDOM_STATE = "GeneratorState"  # of Paddle, in one of these modules: some others run programs when they are imported
OF_PADDLE = ("paddle.base.libpaddle", "paddle.fluid.libpaddle", "paddle.fluid.core_avx", "paddle.fluid.core_noavx")


def check_pickle(path: Path) -> None:
    """Refuse a file with other objects than paddle.save writes for a training.

    Raises:
        pickle.UnpicklingError: the file names another class.
    """
    with path.open("rb") as file:
        _Checker(file, encoding="latin1").load()


class _Checker(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in KNOWN.get(module, ()) and not (name == RANDOM_STATE and module in OF_PADDLE):
            raise pickle.UnpicklingError(f"the file holds a {module}.{name}")
        return super().find_class(module, name)
