"""The part of a tensor that this rank holds, and its place in the whole tensor."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def part_of(tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """This rank's part of a tensor, and its offset along each dimension. An undivided tensor is its own part."""
    divided: Any = tensor.detach()
    if not hasattr(divided, "to_local"):
        return divided, (0,) * divided.dim()
    (chunk,) = divided.__create_chunk_list__()  # as torch.distributed.checkpoint asks for it
    return divided.to_local(), tuple(chunk.offsets)
