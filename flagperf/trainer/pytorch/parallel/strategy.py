"""What a strategy says of how the ranks share the work."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Iterable

import torch
from torch import Tensor, nn

from flagperf.contract.mesh import Mesh
from flagperf.contract.settings import Settings
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.ranks import Ranks


class Strategy:
    """Base of all strategies. As it stands here, it is that of a single rank, which has the whole network.

    Attributes:
        mesh: who shares what with whom.
        share: which share of the data this rank trains and evaluates on, of how many.
        needs_group: whether a single rank needs a process group, too.
    """

    needs_group = False

    def __init__(self, world: World, settings: Settings, mesh: Mapping[str, int]) -> None:
        self.world, self.settings = world, settings
        self.mesh = Mesh.of(mesh, world.size)
        self.share = Ranks(self.mesh.data_rank(world.rank), self.mesh.data_ranks, world.local_rank, world.local_size)

    # ---------------------------------------------------------------- the network

    def whole(self, network: nn.Module) -> nn.Module:
        """What stands for the network before it is divided, for its fingerprint and the count of its operations."""
        return network

    def divided(self, network: nn.Module, device: torch.device) -> nn.Module:  # noqa: ARG002
        """The network of which this rank holds its part. The optimizer is made afterwards, of these parameters."""
        return network

    def wrapped(self, network: nn.Module, device: torch.device) -> nn.Module:  # noqa: ARG002
        """The network that the training step calls: its backward pass averages gradients over the ranks."""
        return network

    def held(self, network: nn.Module) -> Iterable[Tensor]:
        """The parameters as this rank holds them."""
        return network.parameters()

    # ---------------------------------------------------------------- a step

    def accumulating(self) -> AbstractContextManager[Any]:
        """A block of micro steps whose gradients are added, and not yet averaged over the ranks."""
        return nullcontext()

    def clip(self, parameters: list[nn.Parameter], limit: float) -> Tensor:
        """Clip the gradients to a norm of all of them together; that norm before, the same on every rank."""
        return nn.utils.clip_grad_norm_(parameters, limit)

    def summing(self) -> Any:
        """The process group over which an evaluation sums, in which each sample lies with one rank; None: all ranks."""
        return None

    def agreed(self, metrics: dict[str, float]) -> dict[str, float]:
        """The metrics that this rank found, the same on every rank."""
        return metrics

    def evaluating(self, network: nn.Module) -> AbstractContextManager[Any]:  # noqa: ARG002
        """A block in which each rank may call the network as often as it has batches, the others or not."""
        return nullcontext()

    # ---------------------------------------------------------------- checkpoints

    def identity(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """What must not change for a resumed training to go on in the same way, by configuration key."""
        raise NotImplementedError

    def save(self, folder: Path, step: int, stateful: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Write a checkpoint of this step; called on every rank.

        Args:
            stateful: the parts of the training that have a state, by name.
            own: plain values beside them, the same on every rank.
        """
        raise NotImplementedError

    def load(self, path: Path, stateful: Mapping[str, Any], identity: Mapping[str, Any]) -> Mapping[str, Any]:
        """Bring the parts to the state of a checkpoint; the `own` that was saved with it.

        Raises:
            ConfigError: it is that of another training.
        """
        raise NotImplementedError
