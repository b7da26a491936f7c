"""Which operators autocast computes in the lower precision, and which in fp32; a selection of torch.cuda's lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from torch_acme.tensor import changed

LOWER = (
    "addmm.default",
    "baddbmm.default",
    "bmm.default",
    "conv1d.default",
    "conv1d.padding",
    "conv2d.default",
    "conv2d.padding",
    "conv_transpose1d.default",
    "linear.default",
    "matmul.default",
    "mm.default",
    "scaled_dot_product_attention.default",
)
FULL = (
    "binary_cross_entropy_with_logits.default",
    "cross_entropy_loss.default",
    "layer_norm.default",
    "log_softmax.int",
    "mse_loss.default",
    "nll_loss.default",
    "softmax.int",
    "sum.default",
)
KEY = "AutocastPrivateUse1"
_EVERY = torch.library.Library("_", "IMPL")
_LIBRARY = torch.library.Library("aten", "IMPL")


def register() -> None:
    """Tell torch's dispatcher of them; all other operators compute in the precision of what they are given."""
    _EVERY.fallback(torch.library.fallthrough_kernel, KEY)
    for names, dtype in ((LOWER, None), (FULL, torch.float32)):
        for name in names:
            base, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, base), overload)
            _LIBRARY.impl(operator, _kernel(operator, dtype), KEY)


def _kernel(operator: OpOverload, dtype: torch.dtype | None) -> Callable[..., Any]:
    """The operator on arguments cast to a type, or to that of the autocast block."""
    below = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))

    def compute(*args: Any, **kwargs: Any) -> Any:
        to = dtype or torch.get_autocast_dtype("acme")

        def cast(value: Any) -> Any:
            return value.to(to) if isinstance(value, Tensor) and value.is_floating_point() else value

        with torch._C._ExcludeDispatchKeyGuard(below):
            return operator(*changed(args, cast), **{name: changed(value, cast) for name, value in kwargs.items()})

    return compute
