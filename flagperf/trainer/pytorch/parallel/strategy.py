"""The interface of a strategy, by which ranks share the work."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from flagperf.contract.mesh import Mesh
from flagperf.contract.settings import Settings
from flagperf.trainer.pytorch.background import Background
from flagperf.trainer.pytorch.by_version import host_copies
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.ranks import Ranks


class Strategy:
    """Base of all strategies. Its defaults suit a single rank, which has the whole network.

    Attributes:
        mesh: the ranks as a block with sides.
        background: writes checkpoints while the training goes on; None: they are written at once.
        share: the number of shares of the data, and the share of this rank.
        needs_group: whether a single rank needs a process group, too.
        divides: whether a rank holds parts of the parameters. Such a network may get its weights after its division.
        distributed: the network whose backward pass averages gradients over the ranks at its end; None before it is
            wrapped, with one rank, and if ranks also exchange data elsewhere in a step.
    """

    needs_group = False
    divides = False
    distributed: DistributedDataParallel | None = None

    def __init__(self, world: World, settings: Settings, mesh: Mapping[str, int]) -> None:
        self.world, self.settings = world, settings
        self.mesh = Mesh.of(mesh, world.size)
        self.background = Background(host_copies()) if settings.checkpoint_in_background else None
        self.share = Ranks(self.mesh.data_rank(world.rank), self.mesh.data_ranks, world.local_rank, world.local_size)

    # ---------------------------------------------------------------- the network

    def undivided(self, network: nn.Module) -> nn.Module:
        """The network before its division, or a copy with shapes only: for fingerprint and count of operations."""
        return network

    def divided(self, network: nn.Module, device: torch.device) -> nn.Module:  # noqa: ARG002
        """Divide a network, and return it with this rank's parts. The optimizer is made from these parameters."""
        return network

    def wrapped(self, network: nn.Module, device: torch.device) -> nn.Module:  # noqa: ARG002
        """The network for the training step: its backward pass averages gradients over the ranks."""
        return network

    def pipeline(self, network: nn.Module) -> Any:  # noqa: ARG002
        """The Pipeline that makes the micro steps of a divided network; None: each micro step is one call of it."""
        return None

    def copy_buffers(self, network: nn.Module) -> None:
        """Give every rank the buffers of rank 0: running statistics of batch norm differ between ranks."""
        self.world.copy_buffers(network)

    def of_all_stages(self, values: Any) -> list[Any]:
        """The values of ranks that together hold all parameters; one value where each rank has a part of each."""
        return [values]

    def held(self, network: nn.Module) -> Iterable[Tensor]:
        """This rank's parts of the parameters."""
        return network.parameters()

    # ---------------------------------------------------------------- a step

    def computing(self) -> AbstractContextManager[Any]:
        """A block of forward and backward passes."""
        return nullcontext()

    def accumulating(self) -> AbstractContextManager[Any]:
        """A block of micro steps that adds gradients without averaging them over the ranks."""
        return nullcontext()

    def clip(self, parameters: list[nn.Parameter], limit: float) -> Tensor:
        """Clip the global norm of all gradients to a limit. Returns the norm before, the same on every rank."""
        return nn.utils.clip_grad_norm_(parameters, limit)

    def summing(self) -> Any:
        """The process group over which an evaluation sums: each sample lies with one of its ranks. None: all ranks."""
        return None

    def agreed(self, metrics: dict[str, float]) -> dict[str, float]:
        """The same metrics on every rank, from those of each rank."""
        return metrics

    def evaluating(
        self,
        network: nn.Module,  # noqa: ARG002
        task: Task,  # noqa: ARG002
        batches: Iterator[Any],
        number: int,  # noqa: ARG002
    ) -> AbstractContextManager[Iterator[Any]]:
        """A block in which the task evaluates the network on the batches that the block gives.

        Args:
            batches: of this rank, on the device.
            number: of these batches. Ranks may have different numbers.
        """
        return nullcontext(batches)

    # ---------------------------------------------------------------- checkpoints

    def identity(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that a resumed training must not change, by configuration key."""
        raise NotImplementedError

    def save(self, folder: Path, step: int, stateful: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Write a checkpoint of this step. All ranks call this.

        Args:
            stateful: the parts of the training that have a state, by name.
            values: plain values beside them, the same on every rank.
        """
        raise NotImplementedError

    def written(self, state: Any, write: Callable[[Any], object]) -> None:
        """Write the state of a checkpoint: now, or a copy of it in the background where the setting says so."""
        if self.background is None:
            write(state)
        else:
            self.background.write(state, write)

    def load(self, path: Path, stateful: Mapping[str, Any], identity: Mapping[str, Any]) -> Mapping[str, Any]:
        """Restore the parts from a checkpoint. Returns its `values`.

        Raises:
            ConfigError: the checkpoint belongs to another training.
        """
        raise NotImplementedError
