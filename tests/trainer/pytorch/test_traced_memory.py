"""The memory of a step at its peak: autograd adds gradients in place, also where a mode makes it do otherwise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from flagperf.contract.mesh import Mesh
from flagperf.trainer.pytorch.trace.tally import Tally

SIZE = 4 * 1024  # bytes of a tensor with 1,024 numbers


def summed(x: Tensor) -> Tensor:
    return x[:1] + x[1:2]


def gathered(x: Tensor) -> Tensor:
    return x.gather(0, torch.zeros(1, dtype=torch.int64))


@pytest.mark.parametrize(
    ("forward", "tensors"),  # the sum reads x, which counts, too
    [
        pytest.param(summed, 3, id="the sum of two gradients"),
        pytest.param(gathered, 1, id="the gradient of a gathered number"),
    ],
)
def test_peak_of_backward(forward, tensors: int) -> None:
    x = torch.ones(1024, requires_grad=True)
    with Tally(Mesh(), 1) as tally:
        out = forward(x)
        tally.memory.phase = "backward"
        torch.autograd.grad(out, x, torch.ones_like(out))
    (peak,) = tally.memory.peaks().values()
    assert sum(peak.values()) // SIZE == tensors
