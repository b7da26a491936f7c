"""Context parallelism: each rank along `cp` computes a part of each sequence.

A rank has one early and one late piece of a sequence, so that all ranks attend to equally many places. Attention
gathers the keys and values of all ranks, as Llama 3 was trained (section 3.3.2 of https://arxiv.org/abs/2407.21783).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives

from flagperf.errors import ConfigError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class Context:
    """The part of each sequence that this rank computes: pieces `rank` and `pieces` - 1 - `rank`.

    Attributes:
        pieces: of a sequence: two for each rank.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        self.group, self.rank, self.ranks = mesh.get_group(), mesh.get_local_rank(), mesh.size()
        self.pieces = 2 * self.ranks

    def part(self, tensor: Tensor, dim: int = 1) -> Tensor:
        """This rank's part of a tensor that every rank has completely."""
        pieces = tensor.chunk(self.pieces, dim)
        return torch.cat([pieces[self.rank], pieces[-1 - self.rank]], dim)

    def gather(self, tensor: Tensor, dim: int = 1) -> Tensor:
        """The whole tensor, from the parts of all ranks. The backward pass adds up the gradients of all ranks."""
        early, late = zip(*(part.chunk(2, dim) for part in self._parts(tensor)))
        return torch.cat([*early, *late[::-1]], dim)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over the ranks. The backward pass adds up the gradients of all ranks."""
        return torch.stack(self._parts(tensor[None])).sum(0)[0]

    def _parts(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The tensors of all ranks."""
        gathered: Tensor = collectives.all_gather_single_autograd(tensor.contiguous(), 0, self.group)
        return gathered.chunk(self.ranks)

    def ends(self, length: int) -> tuple[int, int]:
        """Where the two pieces of this rank end, in a sequence of this length."""
        piece = length // self.pieces
        return (self.rank + 1) * piece, (self.pieces - self.rank) * piece


def give_context(network: nn.Module, mesh: DeviceMesh) -> None:
    """Tell a network which part of each sequence it computes.

    Raises:
        ConfigError: the network cannot compute parts of sequences.
    """
    divide: Any = getattr(network, "divide_sequences", None)
    if divide is None:
        raise ConfigError(
            "this network cannot compute parts of sequences",
            where="config.yaml",
            key="parallel.mesh.cp",
            given=type(network).__name__,
            allowed="1, or a network with a method `divide_sequences`",
            advice="docs/parallel.md names the networks that can",
        )
    divide(Context(mesh))
