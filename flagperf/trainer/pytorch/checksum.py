"""A number that tells whether the parameters of two ranks are the same."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


@torch.no_grad()
def checksum(network: nn.Module) -> str:
    """Digest of the byte sums of all parameters; summed on the device, so that large networks take no time."""
    sums = [parameter.reshape(-1).view(torch.uint8).sum(dtype=torch.int64) for parameter in network.parameters()]
    numbers = torch.stack(sums).tolist() if sums else []
    return hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]
