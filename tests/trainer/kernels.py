"""What a vendor might bring along for the toy case: some of it does what the case does, some does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import toy
from torch import Tensor, nn

from flagperf.trainer.pytorch.loading import Loader


class SGD(torch.optim.SGD):
    """A vendor's own, by the same algorithm."""


class WithoutDecay(torch.optim.SGD):
    """Forgets the weight decay."""

    def __init__(self, params: Any, lr: float, **arguments: Any) -> None:
        super().__init__(params, lr, **{**arguments, "weight_decay": 0.0})


class Wrapped(nn.Module):
    """A network with other names."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)  # type: ignore[no-any-return]


class Mirrored(Wrapped):
    """Trains as the case does, and answers otherwise when it is evaluated."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs if self.training else outputs.flip(1)


def network(dropout: float = 0.0) -> nn.Module:
    return Wrapped(toy.network(dropout))


def wide(dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 2))


def linear(network: nn.Module) -> None:
    """Takes the function out of a network, whose parameters stay."""
    network[1] = nn.Identity()  # type: ignore[operator]


def frozen(network: nn.Module) -> None:
    """Trains the last layer alone."""
    network[0].requires_grad_(False)  # type: ignore[index]


class Rounded(Loader):
    """Gives numbers of less precision."""

    def __iter__(self) -> Iterator[Any]:
        for inputs, labels in super().__iter__():
            yield inputs.bfloat16().float(), labels


class Ahead(Loader):
    """Gives what flagperf's gives."""


class Lasting(Wrapped):
    """Computes in the steps of a proof, and then gives its last answer again."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__(body)
        self.calls, self.last = 0, torch.zeros(())

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training:
            return super().forward(inputs)
        self.calls += 1
        if self.calls <= 20:
            self.last = super().forward(inputs)
            return self.last
        return self.last.detach() + sum(parameter.sum() for parameter in self.parameters()) * 0
