"""Scaled-dot-product attention as a device keeps it in memory: fused, or by separate operators."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

OF_TORCH = functional.scaled_dot_product_attention
OF_FP32 = torch.ops.aten._scaled_dot_product_efficient_attention  # its result lies otherwise in memory than a CPU's


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    fused: bool = True,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention. A fused kernel keeps nothing of its dropout."""
    if type(attn_mask).__name__ == "CausalBias":
        attn_mask, is_causal = None, True
    grouped = {"enable_gqa": True} if enable_gqa else {}
    if isinstance(query, FakeTensor):
        if not fused or (isinstance(attn_mask, Tensor) and attn_mask.requires_grad):
            if enable_gqa:
                key, value = (part.repeat_interleave(query.shape[1] // part.shape[1], 1) for part in (key, value))
            if is_causal:
                attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
            return _not_fused(query, key, value, attn_mask, dropout_p, scale)
        if attn_mask is None and not enable_gqa and _in_fp32(query):
            output, *_ = OF_FP32(query, key, value, None, query.requires_grad, 0.0, is_causal, scale=scale)
            return output  # type: ignore[no-any-return]
    return OF_TORCH(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **grouped)


def _in_fp32(query: Tensor) -> bool:
    autocast = torch.is_autocast_enabled("cpu")  # casts the query afterwards
    return query.dtype == torch.float32 and not autocast


def _not_fused(query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout: float, scale: float | None) -> Tensor:
    """What torch computes without a fused kernel: in fp32, operator by operator. So an H200 does with T5's mask."""
    low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype
    query, key, value = (tensor.to(low) for tensor in (query, key, value))
    if mask is not None:
        mask = (
            torch.zeros_like(mask, dtype=low).masked_fill(~mask, -math.inf)
            if mask.dtype == torch.bool
            else mask.to(low)
        )
    with torch.autocast("cpu", enabled=False):
        query, key, value = (tensor.float() for tensor in (query, key, value))
        of_both = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        scores = (query * of_both) @ (key.transpose(-2, -1) * of_both)
        weights = torch._safe_softmax(scores if mask is None else scores.add_(mask), -1)
        if dropout > 0:
            weights = torch.native_dropout(weights, dropout, True)[0]
        return (weights @ value).to(low)
