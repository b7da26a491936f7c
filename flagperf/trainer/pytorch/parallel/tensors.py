"""Tensor parallelism by a plan: several ranks compute a layer together, each with a part of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.utils._pytree import tree_map_only

from flagperf.contract.mesh import Mesh
from flagperf.contract.sharding import Sharding, check_sizes
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.parallel import sequence
from flagperf.trainer.pytorch.parallel.blocks import modules_at

FILE = "config.yaml"


class Replicated(ParallelStyle):
    """A module that every rank computes completely. Its parameters are DTensors, like all others."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def spread(value: Any) -> Any:
            if isinstance(value, DTensor):  # of sequence parallelism
                return value.redistribute(placements=[Replicate()])
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
    "rowwise_rep": partial(RowwiseParallel, input_layouts=Replicate()),  # … where each rank has the whole input
    "embedding_rowwise": partial(RowwiseParallel, input_layouts=Replicate()),
    "replicated": Replicated,
}
# Words of the output layer → a layer whose logits stay divided by classes, as loss parallelism needs them.
LOGITS = partial(ColwiseParallel, output_layouts=Shard(-1), use_local_output=False)
GATHERED = ("colwise_gather_output", "colwise_rep")
# Word of a plan → the width that is divided, and stays so.
PARTS = {"colwise": "out_features", "rowwise": "in_features", "rowwise_rep": "in_features"}


def _network_plan(network: nn.Module) -> dict[str, str]:
    """The plan of a network of Hugging Face's transformers, from its base class and its own class.

    Raises:
        ConfigError: the network has none.
    """
    base_plan = getattr(getattr(network, "config", None), "base_model_tp_plan", None)
    if not base_plan:
        raise ConfigError(
            "the network has no plan of its own for tensor parallelism",
            where=FILE,
            key="parallel.plan",
            given=None,
            allowed="path of a layer → colwise, rowwise, …; docs/parallel.md has an example",
        )
    prefix = str(getattr(network, "base_model_prefix", ""))
    before = f"{prefix}." if prefix and hasattr(network, prefix) else ""
    added: Mapping[str, str] = getattr(type(network), "_tp_plan", None) or {}
    return {**{before + path: style for path, style in base_plan.items()}, **added}


def divide_layers(network: nn.Module, sharding: Sharding, mesh: DeviceMesh) -> None:
    """Divide the layers of a network by a plan, and copy all other parameters to each rank.

    Args:
        sharding: its plan maps a path of a layer, with * for one part between dots, to a word of STYLES; None: the
            network's own plan. Its settings for sequences and losses divide more than the layers.

    Raises:
        ConfigError: the network has no such layer, or STYLES no such word.
    """
    plan, by_word = sharding.plan, _styles(sharding)
    tied = _tied(network)
    owners = {name.rpartition(".")[0] for names in tied for name in names}  # they stay undivided, to be tied again
    styles: dict[str, ParallelStyle] = {}
    words: dict[str, str] = {}
    check_sizes(Mesh(tp=mesh.size()), plan, vars(getattr(network, "config", None) or nn.Module()), lambda _: FILE)
    for path, style in (_network_plan(network) if plan is None else plan).items():
        layers = modules_at(network, path)
        if not layers:
            problem = "the network has no such layer"
            raise ConfigError(problem, where=FILE, key="parallel.plan", given=path)
        if style not in STYLES:
            key, allowed = f"parallel.plan.{path}", ", ".join(STYLES)
            raise ConfigError("no such way to divide a layer", where=FILE, key=key, given=style, allowed=allowed)
        for name in (name for name in layers if name not in owners):
            _check_even(name, getattr(layers[name], PARTS.get(style, ""), None), mesh)
            styles[name] = by_word[style]()
            words[name] = style
    if sharding.loss_parallel and not any(word in GATHERED for word in words.values()):
        raise ConfigError(
            "loss parallelism needs an output layer whose classes the ranks divide",
            where=FILE,
            key="parallel.loss_parallel",
            given="true",
            allowed=f"false, or a plan with {GATHERED[0]} for an output layer that is not tied to the embedding",
        )
    for name, module in network.named_modules():
        if name not in styles and next(module.parameters(recurse=False), None) is not None:
            _check_layer(name, module)
            style_of_part = sequence.undivided_style(name, module) if sharding.sequence_parallel else None
            styles[name] = style_of_part or Replicated()
    if sharding.sequence_parallel:
        sequence.gather_before(network, (name for name, word in words.items() if word == "colwise"))
    parallelize_module(network, mesh, styles)
    _tie_again(network, tied)
    network.register_forward_hook(lambda _network, _inputs, outputs: tree_map_only(DTensor, _plain, outputs))


def _styles(sharding: Sharding) -> dict[str, Callable[[], ParallelStyle]]:
    """Word of a plan → how a layer is computed."""
    divided = sequence.STYLES if sharding.sequence_parallel else {}
    return {**STYLES, **divided, **(dict.fromkeys(GATHERED, LOGITS) if sharding.loss_parallel else {})}


def _plain(tensor: DTensor) -> Tensor:
    """The tensor that every rank has completely; a divided tensor stays as it is."""
    replicated = all(placement.is_replicate() for placement in tensor.placements)
    return tensor.to_local() if replicated else tensor


def _tied(network: nn.Module) -> list[list[str]]:
    """Groups of names of one parameter, such as that of embedding and output layer."""
    names: dict[int, list[str]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _tie_again(network: nn.Module, tied: list[list[str]]) -> None:
    for first, *others in tied:
        for other in others:
            owner, _, name = other.rpartition(".")
            setattr(network.get_submodule(owner), name, network.get_parameter(first))


def _check_even(name: str, size: int | None, mesh: DeviceMesh) -> None:
    """Refuse a layer whose parts would have different sizes: the following layers expect equal parts."""
    if size is not None and size % mesh.size():
        raise ConfigError(
            "the ranks along tp cannot divide a layer evenly",
            where=FILE,
            key="parallel.mesh.tp",
            given=mesh.size(),
            allowed=f"a divisor of {size}, the width of {name}",
        )


def _check_layer(name: str, module: nn.Module) -> None:
    """Refuse parameters of a module with children: its forward pass may use them anywhere."""
    if next(module.children(), None) is not None:
        raise ConfigError(
            f"{type(module).__name__} has parameters of its own beside those of its layers",
            where=FILE,
            key="parallel.mesh.tp",
            given=name or "the network itself",
            allowed="tp=1; parameters in layers, such as Linear, Embedding and norms",
        )
