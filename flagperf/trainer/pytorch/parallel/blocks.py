"""The blocks of a network, each divided as one: found by class or path. Their outputs must be no views."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from flagperf.errors import ConfigError


def modules_at(network: nn.Module, pattern: str) -> dict[str, nn.Module]:
    """Name → module, for a pattern of names such as model.layers.*; * stands for one part between dots."""
    form = re.compile(r"[^.]+".join(map(re.escape, pattern.split("*"))))
    return {name: module for name, module in network.named_modules() if form.fullmatch(name)}


def find_blocks(network: nn.Module, patterns: Sequence[str]) -> list[nn.Module]:
    """The blocks of a network, inner ones before those that hold them.

    Args:
        patterns: names of classes, such as LlamaDecoderLayer, or patterns of module names, such as model.layers.*.

    Raises:
        ConfigError: a pattern matches no module.
    """
    chosen: set[nn.Module] = set()
    for pattern in patterns:
        matching = [module for module in network.modules() if type(module).__name__ == pattern]
        matching = matching or [module for name, module in modules_at(network, pattern).items() if name]
        if not matching:
            classes = ", ".join(sorted({type(module).__name__ for module in network.modules()}))
            raise ConfigError(
                "the network has no such blocks",
                where="config.yaml",
                key="parallel.blocks",
                given=pattern,
                allowed=f"a pattern of places such as model.layers.*, or a class of {classes}",
            )
        chosen.update(matching)
    return [module for module in reversed(list(network.modules())) if module in chosen]


def give_no_views(block: nn.Module) -> None:
    """Let a block's outputs be no views of other tensors, without copying them.

    A Linear with a bias returns a view, and so does a layer that ranks compute together. FSDP2 adds a hook to the
    outputs that gathers the block's parameters for the backward pass. An operation in place on a view would drop it.
    """
    block.register_forward_hook(lambda _block, _inputs, outputs: tree_map_only(Tensor, _no_view, outputs))


def _no_view(tensor: Tensor) -> Any:
    viewed = tensor.requires_grad and tensor._base is not None
    return _OwnTensor.apply(tensor) if viewed else tensor


class _OwnTensor(torch.autograd.Function):
    """The same memory as a tensor of its own."""

    @staticmethod
    def forward(_: Any, tensor: Tensor) -> Tensor:
        return tensor.detach()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return gradient
