"""Sequences of one length, cut from tokenised documents that follow each other without gaps."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cases.language_model.indexed import Shard, check_tokens
from flagperf.errors import ConfigError


class PackedTokens(Dataset[Tensor]):
    """Samples of `length` + 1 tokens, int64: all but the last are read, all but the first are to be predicted.

    The last token of a sample is also the first token of the next sample. So no token is predicted twice. Only the
    first token, and an incomplete sample at the end, are not predicted.

    Args:
        path: a .bin file in Megatron's indexed form, or a folder of them, taken in the order of their names.
        length: tokens of a sequence.
        vocab_size: how many tokens the network knows.
        most: samples from the beginning that are used; None: all.
        documents: whether a sample is [2, length + 1]: its tokens, and the number of each token's document.
    """

    def __init__(
        self, path: str, length: int, vocab_size: int, most: int | None = None, documents: bool = False
    ) -> None:
        self.length, self.vocab_size, self.documents = length, vocab_size, documents
        self.shards = [Shard(file) for file in _files(Path(path))]
        self.starts = [0, *accumulate(len(shard.tokens) for shard in self.shards)]
        available = (self.starts[-1] - 1) // length
        if not available:
            raise ConfigError(
                "the text has not enough tokens for one sequence",
                where=path,
                key="data_dir",
                given=self.starts[-1],
                allowed=f"at least {length + 1}",
            )
        self.samples = available if most is None else min(most, available)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Tensor:
        begin = index * self.length
        end = begin + self.length + 1
        first, last = bisect_right(self.starts, begin) - 1, bisect_right(self.starts, end - 1) - 1
        parts, numbers = [], []
        for shard, start in zip(self.shards[first : last + 1], self.starts[first:]):
            inside = max(0, begin - start), min(end - start, len(shard.tokens))
            part = shard.tokens[slice(*inside)]
            check_tokens(part, self.vocab_size, shard.path)
            parts.append(part)
            if self.documents:
                numbers.append(start + shard.documents(*inside))  # no two shards share a number
        tokens = torch.from_numpy(np.concatenate(parts).astype(np.int64))
        return torch.stack([tokens, torch.from_numpy(np.concatenate(numbers))]) if self.documents else tokens

    def check(self) -> None:
        """Look at the whole index of each file; tokens are checked when they are read."""
        for shard in self.shards:
            shard.check()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.bin"))
    if not files:
        raise ConfigError("no .bin file in this folder of the data set", where=str(path), key="data_dir")
    return files
