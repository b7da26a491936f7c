"""Equal blocks of a network: of many alike a few are traced, and the rest follows."""

from __future__ import annotations

from typing import Any

from torch import nn

ENOUGH = 8  # equal blocks from which a few stand for all


def equal_blocks(network: nn.Module) -> nn.ModuleList | nn.Sequential | None:
    """The longest list of blocks that are alike in class and parameters, where it is long; else None."""
    lists = [module for module in network.modules() if isinstance(module, (nn.ModuleList, nn.Sequential))]
    long = [blocks for blocks in lists if len(blocks) >= ENOUGH and len({_form(block) for block in blocks}) == 1]
    long = [blocks for blocks in long if next(blocks.parameters(), None) is not None]
    return max(long, key=lambda blocks: sum(map(_numel, blocks.parameters())), default=None)


def keep(network: nn.Module, number: int) -> None:
    """Leave so many blocks of the network's equal blocks: the first ones and the last."""
    blocks: Any = equal_blocks(network)
    del blocks[number - 1 : -1]


def _form(block: nn.Module) -> tuple[Any, ...]:
    parameters = tuple((name, tuple(tensor.shape)) for name, tensor in block.named_parameters())
    return (type(block), tuple(type(module) for module in block.modules()), parameters)


def _numel(parameter: nn.Parameter) -> int:
    return parameter.numel()
