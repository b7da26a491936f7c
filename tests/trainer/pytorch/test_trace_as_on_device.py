"""What autograd keeps of a forward pass: what an accelerator keeps, though the trace runs through shapes of a CPU."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

from flagperf.trainer.pytorch.trace.as_on_device import AsOnDevice

HALF, FULL = torch.float16, torch.float32
SHAPE = (2, 4, 16, 16)  # samples, heads, tokens, numbers


def dropped(x: Tensor) -> Tensor:
    return functional.dropout(x, 0.1)


def softmax(x: Tensor) -> Tensor:
    return functional.softmax(x, -1)


def loss(x: Tensor) -> Tensor:
    return functional.cross_entropy(x.flatten(0, 2), torch.zeros(128, dtype=torch.int64))


def attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)


def with_learned_mask(x: Tensor) -> Tensor:
    mask = torch.zeros(16, 16, requires_grad=True)
    return functional.scaled_dot_product_attention(x, x, x, mask, dropout_p=0.1)


def layer(x: Tensor) -> Tensor:
    tokens = x.flatten(0, 1).flatten(1).unflatten(1, (4, 64))  # [8, 4, 64]
    return nn.MultiheadAttention(64, 4, batch_first=True)(tokens, tokens, tokens, need_weights=False)[0]


@pytest.mark.slow  # the first tensor without values takes seconds
@pytest.mark.parametrize(
    ("forward", "dtype", "kept"),
    [
        pytest.param(dropped, FULL, {torch.bool: 1}, id="dropout keeps a byte for each number"),
        pytest.param(softmax, HALF, {FULL: 1}, id="softmax of fp16 keeps no copy in fp32"),
        pytest.param(loss, HALF, {FULL: 1}, id="nor does the loss"),
        pytest.param(attention, FULL, {FULL: 2}, id="fused attention keeps its input and its result"),
        pytest.param(
            with_learned_mask, FULL, {FULL: 5, torch.bool: 1}, id="attention with a learned mask is not fused"
        ),
        pytest.param(layer, FULL, {FULL: 4}, id="a layer copies the result of fused attention"),
    ],
)
def test_kept(forward: Callable[[Tensor], Tensor], dtype: torch.dtype, kept: dict[torch.dtype, int]) -> None:
    """`kept`: by data type, the tensors that are as large as the input."""
    tensors: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        tensors[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with FakeTensorMode(), torch.autocast("cpu", HALF, enabled=dtype == HALF), AsOnDevice():
        x = torch.zeros(SHAPE, dtype=dtype, requires_grad=True)
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            forward(x)
    assert Counter(tensor.dtype for tensor in tensors.values() if tensor.numel() == math.prod(SHAPE)) == kept
