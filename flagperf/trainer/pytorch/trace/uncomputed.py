"""Steps with values whose convolutions and matrix products compute nothing.

A full-size detector would take minutes of a CPU for them; a CPU without matrix units, even longer in bf16.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

PRODUCTS = frozenset(
    getattr(torch.ops.aten, name).default for name in ("convolution", "convolution_backward", "mm", "addmm", "bmm")
)
NOISE = 0.1 * torch.randn(1_000_003, generator=torch.Generator().manual_seed(0))  # a prime: no row repeats another


class ProductsUncomputed(TorchDispatchMode):
    """A mode in which products have results of the right shapes, filled with small random numbers.

    The outputs of a network with random weights look no different: they decide as well which proposals overlap.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._shapes = FakeTensorMode()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in PRODUCTS:
            return func(*args, **(kwargs or {}))
        without_values = tree_map_only(Tensor, lambda tensor: self._shapes.from_tensor(tensor.detach()), args)
        with self._shapes:
            shapes = func(*without_values)
        return tree_map_only(Tensor, _noise, shapes)


def _noise(shape: Tensor) -> Tensor:
    """Random numbers in the shape and strides of a tensor that has no values."""
    result = torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype)
    for part in result.as_strided((result.numel(),), (1,)).split(len(NOISE)):  # type: ignore[no-untyped-call]
        part.copy_(NOISE[: len(part)])
    return result
