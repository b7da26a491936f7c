"""Operators that do not come through the class of the chip's tensors, and host memory that chips read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from torch_acme.tensor import compute

_LIBRARY = torch.library.Library("aten", "IMPL")
_empty = torch.empty


def register() -> None:
    """Tell torch's dispatcher of them."""
    aten = torch.ops.aten
    # All factories are made of these.
    _LIBRARY.impl("empty.memory_format", _factory(aten.empty.memory_format), "PrivateUse1")
    _LIBRARY.impl("empty_strided", _factory(aten.empty_strided.default), "PrivateUse1")
    # torch.tensor(…, device="acme") works below the classes of tensors, and copies by this.
    _LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")

    # A device of Python has no allocator of pinned memory: what is to be pinned is only copied.
    _LIBRARY.impl("_pin_memory", lambda host, *_: host.clone(), "CPU")
    torch.empty = _unpinned_empty


def _factory(operator: OpOverload) -> Any:
    return lambda *args, **kwargs: compute(operator, args, kwargs)


def _copy_from(source: Tensor, to: Tensor, non_blocking: bool = False) -> Any:
    return compute(torch.ops.aten.copy_.default, (to, source, non_blocking), {})


def _unpinned_empty(*args: Any, **kwargs: Any) -> Tensor:
    kwargs.pop("pin_memory", None)
    return _empty(*args, **kwargs)
