"""Equal blocks of a network: of many alike a few are traced, and the rest follows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from torch import nn

ENOUGH = 8  # equal blocks from which a few stand for all
MOST = 2  # kinds of equal blocks: a further kind would double the number of traces


class Equal(NamedTuple):
    """Neighbours in a list of modules that are alike. The list may begin or end with others."""

    blocks: Any  # nn.ModuleList or nn.Sequential
    first: int
    number: int


def equal_blocks(network: nn.Module) -> list[Equal]:
    """Neighbouring blocks that are alike in class and parameters, where these are many: at most MOST kinds.

    Those with most parameters come first. No block lies within another block of the list. The list is empty for a
    network that gives its blocks different work, and says so by `blocks_differ`.
    """
    if getattr(network, "blocks_differ", False):
        return []
    lists = [module for module in network.modules() if isinstance(module, (nn.ModuleList, nn.Sequential))]
    long = [equal for blocks in lists for equal in _alike(blocks) if equal.number >= ENOUGH and _parameters(equal)]
    chosen: list[Equal] = []
    for equal in sorted(long, key=_parameters, reverse=True):
        if not any(equal.blocks in {*block.modules()} for other in chosen for block in other.blocks):
            chosen.append(equal)
    return chosen[:MOST]


def keep(network: nn.Module, numbers: Sequence[int], stages: Sequence[int] = ()) -> None:
    """Leave so many of the network's equal blocks, a number for each of `equal_blocks`: the first ones and the last.

    Args:
        stages: of a pipeline: their numbers of equal blocks. So many blocks of each stage are left.
    """
    pairs = zip(equal_blocks(network), numbers)
    for equal, number in sorted(pairs, key=lambda pair: pair[0].first, reverse=True):  # one list may have several
        end = equal.first + equal.number
        for blocks in reversed(stages or (equal.number,)):
            first, end = end - blocks, end - blocks
            del equal.blocks[first + number - 1 : first + blocks - 1]


def _alike(blocks: Any) -> list[Equal]:
    runs, first = [], 0
    for _, group in groupby(blocks, key=_form):
        run = Equal(blocks, first, len(list(group)))
        runs.append(run)
        first += run.number
    return runs


def _form(block: nn.Module) -> tuple[Any, ...]:
    parameters = tuple((name, tuple(tensor.shape)) for name, tensor in block.named_parameters())
    return (type(block), tuple(type(module) for module in block.modules()), parameters)


def _parameters(equal: Equal) -> int:
    block: nn.Module = equal.blocks[equal.first]
    return equal.number * sum(parameter.numel() for parameter in block.parameters())
