"""Tensors of one side of a search, on the host, and how far two of them lie apart.

A large tensor is noted as sums of its numbers with random signs. They need little memory at any size.
The distance of two tensors is that of their sums, within a few percent of it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Size, Tensor

LARGE = 2**20  # numbers from which a tensor is noted as sums
OTHER_SHAPE = {"error": float("inf"), "cosine": 0.0}  # the difference of two tensors with different shapes
SUMS = 2**12  # so many give the distance of two tensors within 1 / sqrt(2 * SUMS), about 1 % of it


class Noted(NamedTuple):
    """A tensor of one side: its numbers, or their sums."""

    name: str  # of the module or the parameter
    shape: Size
    value: Tensor


def complete(name: str, tensor: Tensor) -> Noted:
    """A tensor with all its numbers."""
    return Noted(name, tensor.shape, tensor.detach().cpu().clone())


def summary(name: str, tensor: Tensor) -> Noted:
    """A tensor with all its numbers, a large one as sums."""
    return complete(name, tensor) if tensor.numel() < LARGE else Noted(name, tensor.shape, sums(tensor.detach().cpu()))


def sums(tensor: Tensor) -> Tensor:
    """Each number of a tensor counts in one of the sums, with a random sign. The signs depend on the size alone."""
    total = torch.zeros(SUMS, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for part in tensor.flatten().split(LARGE):  # type: ignore[no-untyped-call]
        padded = torch.zeros(-(-len(part) // SUMS) * SUMS, dtype=torch.float64)
        padded[: len(part)] = part.double()
        signs = 2 * torch.randint(2, padded.shape, generator=generator) - 1
        total += (signs * padded).view(-1, SUMS).sum(0)
    return total


def apart(mine: Noted, other: Noted) -> dict[str, float]:
    """Relative error of a noted tensor, and the cosine of both; endless for other shapes."""
    if mine.shape != other.shape:
        return OTHER_SHAPE
    return difference(mine.value, other.value)


def difference(mine: Tensor, other: Tensor) -> dict[str, float]:
    """Relative error of a tensor by its norm, and the cosine of both; endless for other shapes and for no numbers."""
    if mine.shape != other.shape:
        return OTHER_SHAPE
    a, b = mine.detach().double().flatten(), other.detach().double().flatten()
    norms = float(a.norm()), float(b.norm())
    error = float((a - b).norm()) / max(norms[0], 1e-12) if any(norms) else 0.0
    cosine = float(a @ b) / (norms[0] * norms[1]) if all(norms) else 1.0
    return {"error": error if error == error else float("inf"), "cosine": cosine}
