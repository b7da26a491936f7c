"""A checksum by which the parameters of two ranks are compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def checksum(tensors: Iterable[Tensor]) -> str:
    """Digest of the byte sums of all tensors; summed on the device, so that large networks take no time."""
    sums = [tensor.reshape(-1).view(torch.uint8).sum(dtype=torch.int64) for tensor in tensors]
    numbers = torch.stack(sums).tolist() if sums else []
    return hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]
