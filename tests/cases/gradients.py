"""The gradients of a network, for comparisons of two networks."""

from __future__ import annotations

import torch
from torch import nn


def gradient_norm(network: nn.Module) -> float:
    """The norm of the gradients of all parameters. Every parameter must have a gradient."""
    return torch.cat([parameter.grad.flatten() for parameter in network.parameters()]).norm().item()  # type: ignore[union-attr]
