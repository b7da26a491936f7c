"""Attention of transformers' networks where each rank computes a part of each sequence (parallel/context.py)."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from flagperf.trainer.pytorch.parallel.context import Context

NAME = "flagperf_context_{}"  # of the attention below and its kernel, in the registry of transformers


def attend_to_all_ranks(config: Any, context: Context) -> None:
    """Let the attention layers of a configuration see the keys and values of all ranks."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    chosen = config._attn_implementation
    kernel = None if chosen == "eager" else ALL_ATTENTION_FUNCTIONS[chosen]
    ALL_ATTENTION_FUNCTIONS.register(name := NAME.format(chosen), partial(_attention, context, kernel))
    config._attn_implementation = name


def _attention(
    context: Context,
    kernel: Any,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """The attention of this rank's places, [samples, places, heads, width].

    Args:
        kernel: of transformers; None: the plain function in the module's own file.
        query, key, value: of this rank's places, [samples, heads, places, width].
        attention_mask: [1 or samples, 1 or heads, places, length]; None: each place attends to those before it.
    """
    kernel = kernel or sys.modules[type(module).__module__].eager_attention_forward  # type: ignore[attr-defined]
    keys, values = context.gather(key, 2), context.gather(value, 2)
    if attention_mask is not None:
        return kernel(module, query, keys, values, attention_mask, **arguments)[0], None
    made = []
    for piece, end in zip(query.chunk(2, 2), context.ends(keys.shape[2])):
        mask = _causal(piece.shape[2], end)
        made.append(kernel(module, piece, keys[:, :, :end], values[:, :, :end], mask, **arguments)[0])
    return torch.cat(made, 1), None


def _causal(places: int, end: int) -> Any:
    """The mask of a piece of a sequence, where each place attends to those before it. Kernels need no memory for it."""
    from torch.nn.attention.bias import causal_lower_right

    with _disable_current_modes():  # a trace has tensors of another class
        return cast(Any, causal_lower_right)(places, end)
