"""Expert parallelism: ranks along `ep` have different experts, and send each other the tokens of these experts.

A module with experts has an attribute `exchange`, and parameters whose first dimension counts the experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

from flagperf.errors import ConfigError

KEY = "parallel.mesh.ep"


class Exchange:
    """Sends rows of tokens to the ranks with their experts, and brings the outputs back."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.group, self.ranks = mesh.get_group(), mesh.size()

    def loads(self, loads: Tensor) -> Tensor:
        """How many rows each rank has for each expert of this rank, [ranks, own experts].

        Args:
            loads: how many rows this rank has for each expert of all ranks, [experts].
        """
        received = torch.empty_like(loads)
        distributed.all_to_all_single(received, loads, group=self.group)
        return received.view(self.ranks, -1)

    def send(self, rows: Tensor, there: Sequence[int], here: Sequence[int]) -> Tensor:
        """The rows that all ranks have for this one. The backward pass sends their gradients back.

        Args:
            there: how many of the rows go to each rank.
            here: how many rows come from each rank.
        """
        return collectives.all_to_all_single_autograd(rows.contiguous(), list(here), list(there), self.group)

    def local_part(self, parameter: Any) -> Tensor:
        """This rank's part of a parameter. Its gradient is the mean over the ranks whose rows the part computes."""
        part: Tensor = _Mean.apply(parameter.to_local(), self.ranks)
        return part


class _Mean(torch.autograd.Function):
    """The same tensor, whose gradient is divided by a number."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, number: int) -> Tensor:
        context.number = number
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] / context.number, None


def divide_experts(network: nn.Module, mesh: DeviceMesh) -> list[nn.Module]:
    """Divide the experts of each layer over the ranks. Returns the modules with experts.

    Raises:
        ConfigError: the network has no experts, or the ranks cannot divide them evenly.
    """
    modules = [module for module in network.modules() if hasattr(module, "exchange")]
    if not modules:
        name, allowed = type(network).__name__, "1, or a network with experts"
        raise ConfigError("the network has no experts", where="config.yaml", key=KEY, given=name, allowed=allowed)
    for module in modules:
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.shape[0] % mesh.size():
                raise ConfigError(
                    "the ranks along ep cannot divide the experts evenly",
                    where="config.yaml",
                    key=KEY,
                    given=mesh.size(),
                    allowed=f"a divisor of {parameter.shape[0]}, the experts of a layer",
                )
            part = distribute_tensor(parameter.detach(), mesh, [Shard(0)], src_data_rank=None)
            module.register_parameter(name, nn.Parameter(part, parameter.requires_grad))
        module.exchange = Exchange(mesh)  # type: ignore[assignment]
    return modules


def second_dimension(parameter: nn.Parameter) -> Shard:  # noqa: ARG001
    """Along which dimension ranks divide the tensors of their experts: a rank may have fewer experts than copies."""
    return Shard(1)
