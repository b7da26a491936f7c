"""Layers that several ranks compute together, each with a part of their tensors: tensor parallelism by a plan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, distribute_module
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from flagperf.contract.mesh import Mesh
from flagperf.contract.sharding import check_sizes
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.parallel.blocks import named

FILE = "config.yaml"


class Replicated(ParallelStyle):
    """A module that every rank computes as a whole, with parameters that are DTensors like those of all others."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def spread(value: Any) -> Any:
            return DTensor.from_local(value, device_mesh, [Replicate()]) if isinstance(value, Tensor) else value

        def before(_: nn.Module, inputs: Any, _mesh: DeviceMesh) -> Any:
            return tuple(map(spread, inputs))

        def after(_: nn.Module, output: Any, _mesh: DeviceMesh) -> Any:
            return output.to_local() if isinstance(output, DTensor) else output

        return distribute_module(module, device_mesh, input_fn=before, output_fn=after)


# Word of a plan → how a layer is computed: by Hugging Face's names, of transformers 5 and 4.
STYLES: Mapping[str, Callable[[], ParallelStyle]] = {
    "colwise": ColwiseParallel,  # rows of the weight: each rank computes a part of the output, and keeps it
    "colwise_gather_output": partial(ColwiseParallel, output_layouts=Replicate()),  # … and then gets all of it
    "colwise_rep": partial(ColwiseParallel, output_layouts=Replicate()),
    "rowwise": RowwiseParallel,  # columns: the input is divided already, and the outputs are summed
    "rowwise_rep": partial(RowwiseParallel, input_layouts=Replicate()),  # … of which each rank had the whole input
    "embedding_rowwise": partial(RowwiseParallel, input_layouts=Replicate()),
    "replicated": Replicated,
}
# Word of a plan → the width of which each rank gets a part, and keeps it.
PARTS = {"colwise": "out_features", "rowwise": "in_features", "rowwise_rep": "in_features"}


def own_plan(network: nn.Module) -> dict[str, str]:
    """The plan that a network of Hugging Face's transformers carries: of its base, and of what it adds.

    Raises:
        ConfigError: it carries none.
    """
    of_base = getattr(getattr(network, "config", None), "base_model_tp_plan", None)
    if not of_base:
        raise ConfigError(
            "the network has no plan of its own for tensor parallelism",
            where=FILE,
            key="parallel.plan",
            given=None,
            allowed="place → colwise, rowwise, …; docs/parallel.md has an example",
        )
    prefix = str(getattr(network, "base_model_prefix", ""))
    before = f"{prefix}." if prefix and hasattr(network, prefix) else ""
    added: Mapping[str, str] = getattr(type(network), "_tp_plan", None) or {}
    return {**{before + place: how for place, how in of_base.items()}, **added}


def divide_layers(network: nn.Module, plan: Mapping[str, str] | None, mesh: DeviceMesh) -> None:
    """Divide the layers of a network as a plan says; all other parameters are copied to each rank.

    Args:
        plan: place, with * for one part between dots → word of STYLES; None: the network's own.

    Raises:
        ConfigError: a place or a word of the plan does not exist.
    """
    tied = _tied(network)
    owners = {name.rpartition(".")[0] for names in tied for name in names}  # they stay whole, to be tied again
    styles: dict[str, ParallelStyle] = {}
    check_sizes(Mesh(tp=mesh.size()), plan, vars(getattr(network, "config", None) or nn.Module()), lambda _: FILE)
    for place, how in (own_plan(network) if plan is None else plan).items():
        found = named(network, place)
        if not found:
            problem = "the network has no such layer"
            raise ConfigError(problem, where=FILE, key="parallel.plan", given=place)
        if how not in STYLES:
            key, allowed = f"parallel.plan.{place}", ", ".join(STYLES)
            raise ConfigError("no such way to divide a layer", where=FILE, key=key, given=how, allowed=allowed)
        for name in (name for name in found if name not in owners):
            _check_even(name, getattr(found[name], PARTS.get(how, ""), None), mesh)
            styles[name] = STYLES[how]()
    for name, module in network.named_modules():
        if name not in styles and next(module.parameters(recurse=False), None) is not None:
            _check_layer(name, module)
            styles[name] = Replicated()
    parallelize_module(network, mesh, styles)
    _tie_again(network, tied)


def _tied(network: nn.Module) -> list[list[str]]:
    """Names of parameters that are one, such as those of embedding and output layer."""
    names: dict[int, list[str]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [several for several in names.values() if len(several) > 1]


def _tie_again(network: nn.Module, tied: list[list[str]]) -> None:
    for first, *others in tied:
        for other in others:
            owner, _, name = other.rpartition(".")
            setattr(network.get_submodule(owner), name, network.get_parameter(first))


def _check_even(name: str, size: int | None, mesh: DeviceMesh) -> None:
    """Refuse a layer of which the ranks would have parts of different sizes: what follows expects equal ones."""
    if size is not None and size % mesh.size():
        raise ConfigError(
            "the ranks along tp cannot divide a layer evenly",
            where=FILE,
            key="parallel.mesh.tp",
            given=mesh.size(),
            allowed=f"a divisor of {size}, the width of {name}",
        )


def _check_layer(name: str, module: nn.Module) -> None:
    """Refuse parameters of a module that is made of others: it may use them anywhere in its forward pass."""
    if next(module.children(), None) is not None:
        raise ConfigError(
            f"{type(module).__name__} has parameters of its own beside those of its layers",
            where=FILE,
            key="parallel.mesh.tp",
            given=name or "the network itself",
            allowed="tp=1; parameters in layers, such as Linear, Embedding and norms",
        )
