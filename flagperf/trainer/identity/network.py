"""The identity of a network and its optimizer in BUILT, with the same fields for every framework."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Tuple

from flagperf.contract.digest import digest

Tensor = Tuple[str, str, Any]  # name, "parameter" or "buffer", a tensor with `shape` and `dtype`
Module = Tuple[str, str]  # name, module and name of its class


def network_identity(parameters: int, tensors: Iterable[Tensor], modules: Iterable[Module]) -> dict[str, Any]:
    """Number of parameters, digests of tensors and modules, and how many modules there are of each class."""
    named = list(modules)
    return {
        "parameters": parameters,
        "tensors": digest(f"{name} {kind} {list(tensor.shape)} {tensor.dtype}" for name, kind, tensor in tensors),
        "modules": digest(f"{name} {path}" for name, path in named),
        "classes": dict(sorted(Counter(path for _, path in named).items())),
    }


def group_identity(sizes: Sequence[int], names: Iterable[str], **hyper_parameters: Any) -> dict[str, Any]:
    """A parameter group: the numbers in each of its parameters, their names, and its hyper-parameters."""
    return {"tensors": len(sizes), "parameters": sum(sizes), "names": digest(names), **hyper_parameters}
