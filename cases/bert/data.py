"""BERT's pre-training examples for PyTorch: a folder of shards, whose format cases/bert/shard.py describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Dict

import torch
from torch import Tensor
from torch.utils.data import Dataset

from cases.bert.shards import Numbers, ShardOrder, Shards


class ShardedExamples(Shards, Dataset[Dict[str, Tensor]]):
    """All examples of a folder of shards, as tensors."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: torch.from_numpy(numbers) for name, numbers in self.read(index).items()}

    def order(self, generator: torch.Generator) -> ShardOrder:
        """The order of one epoch."""
        return shard_order(self.starts, generator)


def shard_order(starts: Sequence[int], generator: torch.Generator) -> ShardOrder:
    """An order that PyTorch's generator draws."""
    shards = torch.randperm(len(starts) - 1, generator=generator).tolist()
    seed = int(torch.randint(2**31, (), generator=generator))

    def shuffled(shard: int, size: int) -> Numbers:
        order: Numbers = torch.randperm(size, generator=torch.Generator().manual_seed(seed + shard)).numpy()
        return order

    return ShardOrder(starts, shards, shuffled)
