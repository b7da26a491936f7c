"""Low-rank adapters (LoRA, arXiv:2106.09685): small matrices beside linear layers train, all other weights are frozen.

An adapter is a submodule `adapter` of its layer: layers keep their names, classes and weights. The library peft wraps
the network in classes of its own, renames all parameters, and needs a newer Python and torch than old stacks have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flagperf.contract.settings import Adapter
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.task import Task

NAME = "adapter"  # of the submodule


class LowRank(nn.Module):
    """Adds up(down(dropout(inputs))) x alpha / rank to the output of a linear layer: at first zero, as in the paper.

    Args:
        layer: weights [outputs, inputs]; the adapter has its device and type.
    """

    def __init__(self, layer: nn.Linear, rank: int, alpha: float, dropout: float) -> None:
        super().__init__()
        like = {"bias": False, "device": layer.weight.device, "dtype": layer.weight.dtype}
        self.down = nn.Linear(layer.in_features, rank, **like)  # type: ignore[arg-type]
        self.up = nn.Linear(rank, layer.out_features, **like)  # type: ignore[arg-type]
        nn.init.zeros_(self.up.weight)
        self.dropout = nn.Dropout(dropout)
        self.scale = alpha / rank

    def forward(self, inputs: Tensor) -> Tensor:
        """What the layer's output changes by, [..., outputs]."""
        change: Tensor = self.up(self.down(self.dropout(inputs)))
        return change * self.scale


def adapted(network: nn.Module, settings: Adapter) -> nn.Module:
    """Freeze a network and give its chosen linear layers adapters; the same network where no layers are chosen.

    Raises:
        ConfigError: a name of `adapter.modules` matches no linear layer.
    """
    layers = {layer for name in settings.modules for layer in _linear_layers(network, name)}
    if not layers:
        return network
    network.requires_grad_(False)
    for module in list(network.modules()):  # in their order, so that each run draws the same weights
        if module in layers:
            module.add_module(NAME, LowRank(module, settings.rank, settings.alpha, settings.dropout))  # type: ignore[arg-type]
            module.register_forward_hook(_with_change)
    return network


def merged(network: nn.Module) -> nn.Module:
    """The network with its adapters added to the weights of their layers, in place: the same function, without them."""
    for layer, adapter in _adapters(network):
        with torch.no_grad():
            layer.weight += adapter.scale * adapter.up.weight @ adapter.down.weight
        del layer._modules[NAME]
        for key, hook in list(layer._forward_hooks.items()):
            if hook is _with_change:
                del layer._forward_hooks[key]
    return network


def is_adapted(network: object) -> bool:
    """Whether a network has adapters."""
    return isinstance(network, nn.Module) and any(isinstance(module, LowRank) for module in network.modules())


def trained_parameters(task: Task, network: nn.Module) -> Any:
    """The parameters or groups of the task, for the optimizer. With adapters: without frozen parameters."""
    given = task.parameters(network)
    if not is_adapted(network):
        return given
    given = list(given)
    if not isinstance(given[0], Mapping):
        return [parameter for parameter in given if parameter.requires_grad]
    groups = [{**group, "params": [part for part in group["params"] if part.requires_grad]} for group in given]
    return [group for group in groups if group["params"]]


def base_state(network: nn.Module) -> dict[str, Tensor]:
    """State dict of the network without its adapters."""
    return {name: tensor for name, tensor in network.state_dict().items() if f".{NAME}." not in f".{name}"}


def saved_state(part: Any) -> Any:
    """The state of a part of a training for a checkpoint; of a network with adapters without the frozen weights."""
    state = part.state_dict()
    if not is_adapted(part):
        return state
    frozen = {name for name, parameter in part.named_parameters() if not parameter.requires_grad}
    return {name: tensor for name, tensor in state.items() if name not in frozen}


def load_saved_state(part: Any, state: Mapping[str, Any]) -> None:
    """Restore a part of a training from its `saved_state`. Raises KeyError for a state of other adapters."""
    if not is_adapted(part):
        part.load_state_dict(state)
        return
    missing = [name for name in saved_state(part) if name not in state]
    if missing:
        raise KeyError(missing[0])
    part.load_state_dict(state, strict=False)


def check_frozen(path: str, saved: str | None, checksum: str | None) -> None:
    """Refuse a checkpoint whose adapters belong to other frozen weights, with a ConfigError."""
    if saved != checksum:
        raise ConfigError(
            "the adapters of the checkpoint were trained with other frozen weights",
            where=path,
            key="init_checkpoint",
            given=f"weights with the checksum {checksum}",
            allowed=f"weights with the checksum {saved}",
            advice="start from the weights of the earlier run, or start again without resume",
        )


def _adapters(network: nn.Module) -> Iterator[tuple[Any, LowRank]]:
    """Each layer that has an adapter, with this adapter."""
    for module in list(network.modules()):
        adapter = module._modules.get(NAME)
        if isinstance(adapter, LowRank):
            yield module, adapter


def _with_change(layer: Any, inputs: Sequence[Tensor], output: Tensor) -> Tensor:
    change: Tensor = layer.adapter(inputs[0])
    return output + change


def _linear_layers(network: nn.Module, pattern: str) -> list[nn.Module]:
    """The linear layers whose path ends with a pattern; * stands for one part between dots.

    A class derived from Linear may compute without calling its forward pass, as in torch's attention.
    """
    form = re.compile(r"(.*\.)?" + r"[^.]+".join(map(re.escape, pattern.split("*"))))
    linear: dict[str, nn.Module] = {
        name: module for name, module in network.named_modules() if type(module) is nn.Linear
    }
    matching = [module for name, module in linear.items() if form.fullmatch(name)]
    if not matching:
        raise ConfigError(
            "the network has no such linear layer",
            where="config.yaml",
            key="adapter.modules",
            given=pattern,
            allowed=", ".join(sorted({name.rpartition(".")[2] for name in linear})),
        )
    return matching
