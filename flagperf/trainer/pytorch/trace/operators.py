"""The class of an operator, and its operations."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from flagperf.contract.trace import OperatorClass
from flagperf.trainer.pytorch.trace.counts import NO_CALL, Call

FUNCTIONS = {name: f"nn.functional.{name}" for name in ("gelu", "silu", "softplus", "leaky_relu", "hardtanh")}
MATMUL = {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "mv", "addmv", "dot", "vdot", "_grouped_mm"}
COPY = {"copy_", "_to_copy", "clone", "cat", "stack", "fill_", "zero_", "zeros", "ones", "full", "constant_pad_nd"}
ELEMENTWISE = {"native_dropout", "native_dropout_backward", "bernoulli_", "where", "masked_fill"}
# A word of a name → class; the first that occurs counts.
WORDS: tuple[tuple[str, OperatorClass], ...] = (
    ("attention", "attention"),
    ("convolution", "convolution"),
    ("vector_norm", "reduction"),
    ("foreach_norm", "reduction"),
    ("_norm", "normalisation"),
    ("embedding", "embedding"),
    ("index_select", "embedding"),
    ("gather", "embedding"),
    ("scatter", "copy"),
    ("softmax", "reduction"),
    ("nll_loss", "reduction"),
    ("roll", "copy"),
    ("flip", "copy"),
    ("index_put", "copy"),
    ("_copy", "copy"),
    ("_like", "copy"),
)
REDUCTIONS = {"sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "prod", "var", "var_mean"}
MAKES_NOTHING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh", "_unsafe_view"}


def class_of(operator: Any, phase: str) -> OperatorClass:
    """The class of an operator of torch.ops."""
    if phase == "optimizer":
        return "optimizer"
    name = name_of(operator)
    if name in MATMUL:
        return "matmul"
    if name in COPY:
        return "copy"
    if name in ELEMENTWISE or torch.Tag.pointwise in operator.tags:
        return "elementwise"
    if name.rstrip("_") in REDUCTIONS:
        return "reduction"
    return next((kind for word, kind in WORDS if word in name), "other")


def name_of(operator: Any) -> str:
    """The name of an operator without its namespace and overload."""
    return cast(str, operator._schema.name.partition("::")[2])


def moves_nothing(operator: Any) -> bool:
    """Whether an operator neither reads nor writes the content of a tensor: it makes a view, or memory."""
    if name_of(operator) in MAKES_NOTHING:
        return True
    returns = operator._schema.returns
    return bool(returns) and all(out.alias_info is not None and not out.alias_info.is_write for out in returns)


def call_of(operator: Any, args: Any, kwargs: Any) -> Call:
    """How to make a call again: by a function of torch, on tensors of numbers, with plain arguments after them."""
    name = name_of(operator)
    tensors = list(takewhile(lambda argument: isinstance(argument, Tensor), args))
    if not tensors or not all(tensor.is_floating_point() for tensor in tensors) or kwargs:
        return NO_CALL
    function, given = name, [list(part) if isinstance(part, (list, tuple)) else part for part in args[len(tensors) :]]
    if name.startswith("_scaled_dot_product") and not name.endswith("backward"):
        function, tensors = "nn.functional.scaled_dot_product_attention", tensors[:3]
        given = [None, 0.0, next((part for part in given if isinstance(part, bool)), False)]
    elif name == "native_layer_norm":
        function, given = "nn.functional.layer_norm", given[:1]
    elif name in FUNCTIONS:
        function = FUNCTIONS[name]
    elif name.endswith(("_", "backward")) or not hasattr(torch, name):
        return NO_CALL
    try:
        return function, tuple(tuple(tensor.shape) for tensor in tensors), json.dumps(given)
    except TypeError:  # a tensor after other arguments, or a type of torch
        return NO_CALL


def operations(operator: Any, args: Any, kwargs: Any, out: Any) -> float:
    """Floating-point operations of a call: of matrix products, convolutions and attention; others count none."""
    name = name_of(operator)
    if name == "_scaled_dot_product_flash_attention_for_cpu":  # torch's own table has the kernels of devices alone
        return _attention(args[0], args[1], args[2], products_of_keys=1, products_of_values=1)
    if name == "_scaled_dot_product_flash_attention_for_cpu_backward":
        return _attention(args[1], args[2], args[3], products_of_keys=3, products_of_values=2)
    formula = flop_registry.get(operator._overloadpacket)
    return 0.0 if formula is None else float(formula(*args, **kwargs, out_val=out))


def _attention(query: Tensor, key: Tensor, value: Tensor, products_of_keys: int, products_of_values: int) -> float:
    """Operations of attention, with the numbers of its matrix products; several heads may share keys and values."""
    batch, heads, length, width = query.shape
    widths = products_of_keys * width + products_of_values * value.shape[-1]
    return 2.0 * batch * heads * length * key.shape[-2] * widths
