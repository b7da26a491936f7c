"""What a device does otherwise than the CPU whose kernels a trace runs through.

Autocast of a device computes some functions in fp32 that autocast of a CPU leaves in the lower precision, and the
fused attention of a device drops out, which that of a CPU cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from flagperf.trainer.pytorch.build import Recomputed

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


class AsOnDevice(TorchFunctionMode):
    """A block in which functions keep the data types and the memory that they have on an accelerator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            kwargs = {**kwargs, "dropout_p": 0.0}
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            if len(args) > 4:
                kwargs.pop("dropout_p")
            if type(kwargs.get("attn_mask")).__name__ == "CausalBias":  # a fused kernel keeps no mask in memory
                kwargs["attn_mask"] = None
        elif getattr(func, "__name__", "") in IN_FP32 and torch.is_autocast_enabled("cpu"):
            args, kwargs = tree_map(_in_fp32, (args, kwargs))
        return func(*args, **kwargs)


def recompute_as_on_device(network: nn.Module) -> None:
    """Let modules that compute again in the backward pass do so under the same mode, which autograd does not keep."""
    for module in network.modules():
        if isinstance(module.forward, Recomputed):
            module.forward.forward = _Within(module.forward.forward)


class _Within:
    """A function under the mode."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with AsOnDevice():
            return self.function(*args, **kwargs)


def _in_fp32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in LOW else value
