"""Checksums of tensors, and the comparison of ranks that must hold equal parameters."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flagperf.trainer.pytorch.adapter import is_adapted
from flagperf.trainer.pytorch.parallel import Strategy
from flagperf.trainer.pytorch.ranks import World


class Difference(NamedTuple):
    """A rank whose parameters differ from those of its copies."""

    rank: int
    copy: int  # a rank with the parameters of most copies
    tensor: str  # name of the first parameter that differs


def checksum(tensors: Iterable[Tensor]) -> str:
    """Digest of the byte sums of all tensors; summed on the device, so that large networks take no time."""
    return _digest(byte_sums(tensors))


@torch.no_grad()
def byte_sums(tensors: Iterable[Tensor]) -> list[int]:
    """The sum of the bytes of each tensor."""
    sums = [tensor.detach().reshape(-1).view(torch.uint8).sum(dtype=torch.int64) for tensor in tensors]
    return torch.stack(sums).tolist() if sums else []


def frozen_checksum(network: nn.Module, strategy: Strategy, world: World) -> str | None:
    """Checksum of all frozen weights of a network with adapters, the same for every mesh; None without adapters.

    The ranks sum the bytes of each weight over all its parts. All ranks call this together.
    """
    if not is_adapted(network):
        return None
    held = zip(network.parameters(), strategy.held(network))
    sums = world.gather(byte_sums(part for parameter, part in held if not parameter.requires_grad))
    by_part = {strategy.mesh.part(rank): of_rank for rank, of_rank in enumerate(sums)}
    return _digest([sum(of_weight) for of_weight in zip(*by_part.values())])


def _digest(numbers: list[int]) -> str:
    return hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]


def difference_between_copies(network: nn.Module, strategy: Strategy, world: World) -> Difference | None:
    """Compare the parameters of all ranks that hold the same part of the network. All ranks call this together.

    Returns:
        The first rank that differs, the same on every rank; of two ranks, the one with the higher number. None: all
        copies are equal.
    """
    sums = byte_sums(strategy.held(network))
    digests = world.gather(_digest(sums))
    for part in sorted({strategy.mesh.part(rank) for rank in range(world.size)}):
        copies = {rank: digest for rank, digest in enumerate(digests) if strategy.mesh.part(rank) == part}
        if len(set(copies.values())) > 1:
            names = [name for name, _ in network.named_parameters()]  # ranks of a pipeline have different ones
            return _difference(copies, world.gather(sums), world.gather(names))
    return None


def _difference(digests: Mapping[int, str], sums: list[list[int]], names: list[list[str]]) -> Difference:
    (common, _), *_ = Counter(digests.values()).most_common()
    copy = next(rank for rank, digest in digests.items() if digest == common)
    rank = next(rank for rank, digest in digests.items() if digest != common)
    tensor = next(name for name, number, other in zip(names[rank], sums[copy], sums[rank]) if number != other)
    return Difference(rank, copy, tensor)
