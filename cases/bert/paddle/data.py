"""BERT's pre-training examples for Paddle: a folder of shards, whose format cases/bert/shard.py describes."""

from __future__ import annotations

import numpy as np
from paddle.io import Dataset

from cases.bert.shards import Numbers, ShardOrder, Shards


class ShardedExamples(Shards, Dataset):  # type: ignore[misc]
    """All examples of a folder of shards, as arrays; Paddle's loader makes tensors of a batch."""

    def __getitem__(self, index: int) -> dict[str, Numbers]:
        return self.read(index)

    def order(self, generator: np.random.Generator) -> ShardOrder:
        """The order of one epoch."""
        shards = generator.permutation(len(self.starts) - 1).tolist()
        seed = int(generator.integers(2**31))

        def shuffled(shard: int, size: int) -> Numbers:
            return np.random.default_rng(seed + shard).permutation(size)

        return ShardOrder(self.starts, shards, shuffled)
