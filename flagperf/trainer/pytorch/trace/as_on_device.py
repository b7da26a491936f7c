"""What a device does otherwise than the CPU whose kernels a trace runs through.

Autocast of a device computes some functions in fp32 that autocast of a CPU leaves in the lower precision; for softmax
of numbers in fp16 one kernel converts and computes. The kernel of a device that drops out keeps a byte for each number;
a CPU keeps a factor, as large as the number. Attention: attention.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from flagperf.trainer.pytorch.build import Recomputed
from flagperf.trainer.pytorch.trace.attention import OF_TORCH, attention

# https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32
NAMES_IN_FP32 = """
    acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist cosine_similarity cross_entropy
    cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10
    log_softmax log1p log2 margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm
    normalize pdist poisson_nll_loss pow prod reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax
    softmin softplus sum renorm tan triplet_margin_loss
"""
IN_FP32 = frozenset(NAMES_IN_FP32.split())
LOW = (torch.float16, torch.bfloat16)
KERNELS_TO_FP32 = ("softmax", "log_softmax", "cross_entropy")


class AsOnDevice(TorchFunctionMode):
    """A block in which functions keep the data types and the memory that they have on an accelerator.

    Args:
        fused: whether attention may use fused kernels.
    """

    def __init__(self, *, fused: bool = True) -> None:
        super().__init__()
        self.attention = partial(attention, fused=fused)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if func is functional.dropout:
            return _dropout(*args, **kwargs)
        if func is OF_TORCH:
            return self.attention(*args, **kwargs)
        if func is functional.multi_head_attention_forward:  # torch leaves the mode within this function of Python
            with patch.object(functional, OF_TORCH.__name__, self.attention):
                return func(*args, **kwargs)
        if torch.is_autocast_enabled("cpu"):
            if name in KERNELS_TO_FP32 and _fp16_without_values(args) and (out := _fused(name, *args, **kwargs)):
                return out[0]
            if name in IN_FP32:
                args, kwargs = tree_map(_in_fp32, (args, kwargs))
        return func(*args, **kwargs)


def recompute_as_on_device(network: nn.Module, *, fused: bool) -> None:
    """Let modules that compute again in the backward pass do so under the same mode, which autograd does not keep."""
    for module in network.modules():
        if isinstance(module.forward, Recomputed):
            module.forward.forward = _Within(module.forward.forward, fused)


class _Within:
    """A function under the mode."""

    def __init__(self, function: Callable[..., Any], fused: bool) -> None:
        self.function, self.fused = function, fused

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with AsOnDevice(fused=self.fused):
            return self.function(*args, **kwargs)


def _in_fp32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in LOW else value


def _fp16_without_values(args: Sequence[Any]) -> bool:
    """Whether the first argument is such a tensor: a CPU has no such kernel, but knows the shapes of its results."""
    return bool(args) and isinstance(args[0], FakeTensor) and args[0].dtype == torch.float16


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """torch.nn.functional.dropout. In place, a device works as a CPU does."""
    if inplace or not training or p == 0:
        return functional.dropout(input, p, training, inplace)
    return torch.native_dropout(input, p, True)[0]


def _fused(name: str, input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor] | None:
    """What one kernel computes in fp32 from numbers in fp16, without a copy of them; None: no kernel does this."""
    if name != "cross_entropy":
        dim = kwargs.get("dim", args[0] if args else None)
        return None if dim is None else (getattr(torch, f"_{name}")(input, dim, True),)
    return _loss(input, *args, **kwargs)


def _loss(input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor] | None:
    """torch.nn.functional.cross_entropy of classes."""
    others = dict(kwargs)
    if args or others.pop("label_smoothing", 0.0) or target.is_floating_point():
        return None
    logarithms = torch._log_softmax(input, min(1, input.dim() - 1), True)
    return (functional.nll_loss(logarithms, target, **others),)
