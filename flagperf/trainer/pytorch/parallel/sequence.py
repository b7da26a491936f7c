"""Sequence parallelism: between layers that ranks compute together, each rank along tp has a part of each sequence.

Norms and sums then work on parts, whose activations take less memory. Ranks gather a sequence where a group of divided
layers begins, and spread the sums where the group ends (https://arxiv.org/abs/2205.05198). The activations are DTensors
with the shape of the whole sequence, so that a network reads its length as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import ParallelStyle, RowwiseParallel, SequenceParallel
from torch.utils._pytree import tree_map_only

PART = Shard(1)  # of activations [samples, length, width]

# Word of a plan → how a layer is computed whose output is divided along the sequence.
STYLES: Mapping[str, Callable[[], ParallelStyle]] = {
    "rowwise": partial(RowwiseParallel, output_layouts=PART, use_local_output=False),
    "rowwise_rep": partial(RowwiseParallel, input_layouts=Replicate(), output_layouts=PART, use_local_output=False),
    "embedding_rowwise": partial(
        RowwiseParallel, input_layouts=Replicate(), output_layouts=PART, use_local_output=False
    ),
}


class GatheredNorm(ParallelStyle):
    """A norm behind the last block: it computes parts, and its output is gathered for the layers behind it."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        SequenceParallel()._apply(module, device_mesh)
        module.register_forward_hook(lambda _module, _inputs, output: gathered(output))
        return module


class Spread(ParallelStyle):
    """A module that every rank computes completely, such as an embedding; each rank keeps its part of the output."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def after(_: nn.Module, output: Any, _mesh: DeviceMesh) -> Any:
            return output.redistribute(placements=[PART])

        def before(_: nn.Module, inputs: Any, mesh: DeviceMesh) -> Any:
            return tuple(DTensor.from_local(value, mesh, [Replicate()], run_check=False) for value in inputs)

        return distribute_module(module, device_mesh, input_fn=before, output_fn=after)


def undivided_style(name: str, module: nn.Module) -> ParallelStyle | None:
    """How a layer outside of the plan is computed; None: whole, as without sequence parallelism."""
    if isinstance(module, nn.Embedding):
        return Spread()
    if all(parameter.dim() < 2 for parameter in module.parameters()):  # a norm
        return SequenceParallel() if _in_list(name) else GatheredNorm()
    return None


def gather_before(network: nn.Module, divided: Iterable[str]) -> None:
    """Gather the sequence at the entry of each module whose layers divide their outputs.

    Args:
        divided: names of these layers.
    """
    for parent in dict.fromkeys(name.rpartition(".")[0] for name in divided):
        if parent:
            network.get_submodule(parent).register_forward_pre_hook(_gathered_inputs, with_kwargs=True)


def opened_along(mesh: DeviceMesh) -> Callable[[Tensor], Tensor]:
    """What a network takes in a later stage of a pipeline, from this rank's part that another rank sent."""
    return lambda part: DTensor.from_local(part, mesh, [PART], run_check=False)


def gathered(values: Any) -> Any:
    """Values whose divided tensors are gathered. The backward pass spreads the summed gradients again."""
    return tree_map_only(DTensor, lambda tensor: tensor.redistribute(placements=[Replicate()]), values)


def _gathered_inputs(_: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return gathered(args), gathered(kwargs)


def _in_list(name: str) -> bool:
    """Whether a module lies in a list of modules, such as the blocks of a network."""
    return any(part.isdigit() for part in name.split("."))
