"""Parallel text as tokens, as cases/transformer/prepare.py writes it.

sentencepiece.model    the joint vocabulary of both languages
train.{en,de}.bin      tokens of all sentences one after the other, uint16, little-endian; each ends with END
train.{en,de}.idx      place in the .bin file at which each sentence begins, and the end of the last, int64
test.en.{bin,idx}      the same of the sentences to translate
test.de                their references, one a line, as published
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from flagperf.errors import ConfigError
from flagperf.trainer.data.texts import lines

BEGIN, PAD, END, UNKNOWN = range(4)  # first tokens of the vocabulary, numbered as fairseq does
TOKEN, PLACE = np.dtype("<u2"), np.dtype("<i8")  # in the files
ROUND = 8  # a batch of at least so many sentences has a multiple of it

Pair = Tuple[Tensor, Tensor]
Batch = Dict[str, Any]  # the result of the collate functions below


class Sentences:
    """The sentences of one file pair, read from disk on access.

    Args:
        path: path of the two files without .bin and .idx.
    """

    def __init__(self, path: str) -> None:
        stored, starts = Path(f"{path}.bin"), Path(f"{path}.idx")
        for file in (stored, starts):
            if not file.is_file():
                raise ConfigError("no such file in the data set", where=str(file), key="data_dir")
        self.starts = np.fromfile(starts, PLACE)
        size = stored.stat().st_size
        if not len(self.starts) or self.starts[-1] * TOKEN.itemsize != size:
            raise ConfigError(
                "the tokens and the places of the sentences do not belong together",
                where=str(stored),
                key="data_dir",
                given=f"{size} bytes",
                advice="prepare the data again: flagperf data prepare model=transformer",
            )
        if not len(self):
            raise ConfigError("no sentences in this split of the data set", where=str(stored), key="data_dir")
        self.tokens = np.memmap(stored, TOKEN, mode="r")
        self.lengths = np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Tensor:
        sentence = self.tokens[self.starts[index] : self.starts[index + 1]]
        return torch.from_numpy(sentence.astype(np.int64))


class TrainPairs(Dataset[Pair]):
    """Sentences with their translations, in batches of about as many tokens each.

    Args:
        source, target: paths of the two languages, as `Sentences` takes them.
    """

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = Sentences(source), Sentences(target)
        if len(self.source) != len(self.target):
            raise ConfigError(
                "the two languages have different numbers of sentences",
                where=target,
                key="data_dir",
                given=len(self.target),
                allowed=f"{len(self.source)}, as in {source}",
            )

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Pair:
        return self.source[index], self.target[index]

    def batches(self, batch_size: int, generator: torch.Generator) -> list[list[int]]:
        """All pairs in batches of at most `batch_size` tokens, padding included, in random order.

        A batch counts as many tokens as it has sentences, times its longest sentence of either language. Pairs of
        similar lengths go together; which of those is up to chance.
        """
        longest = np.maximum(self.source.lengths, self.target.lengths)
        if longest.max() > batch_size:
            raise ConfigError(
                "the longest sentence does not fit into a batch",
                where="config.yaml",
                key="train_batch_size",
                given=f"{batch_size} tokens",
                allowed=f"at least {longest.max()}",
            )
        order = torch.randperm(len(self), generator=generator).numpy()
        for side in (self.target, self.source):  # numbers of two bytes are sorted in linear time
            order = order[np.argsort(side.lengths[order].astype(np.uint16), kind="stable")]
        edges = batch_edges(longest[order], batch_size)
        groups = [order[start:end].tolist() for start, end in zip(edges, edges[1:])]
        return [groups[number] for number in torch.randperm(len(groups), generator=generator).tolist()]

    @staticmethod
    def collate_fn(pairs: Sequence[Pair]) -> Batch:
        """`source` and `target`, padded, [sentences, tokens]; `tokens` of the target without padding."""
        sources, targets = zip(*pairs)
        return {"source": padded(sources), "target": padded(targets), "tokens": sum(map(len, targets))}


class EvalSentences(Dataset[Tuple[Tensor, str]]):
    """Sentences to translate, each with its reference, the shortest first, so that batches need little padding.

    Args:
        source: path of the sentences, as `Sentences` takes it.
        references: file of their translations, one a line.
    """

    def __init__(self, source: str, references: str) -> None:
        self.source = Sentences(source)
        self.references = list(lines(references))
        if len(self.references) != len(self.source):
            raise ConfigError(
                "not every sentence has one reference",
                where=references,
                key="data_dir",
                given=f"{len(self.references)} lines",
                allowed=f"{len(self.source)}, as in {source}",
            )
        self.by_length = np.argsort(self.source.lengths, kind="stable").tolist()

    def __len__(self) -> int:
        return len(self.by_length)

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        number = self.by_length[index]
        return self.source[number], self.references[number]

    @staticmethod
    def collate_fn(sentences: Sequence[tuple[Tensor, str]]) -> Batch:
        """`source`, padded, [sentences, tokens]; `references`, as text."""
        sources, references = zip(*sentences)
        return {"source": padded(sources), "references": list(references)}


def batch_edges(longest: NDArray[np.int64], batch_size: int) -> list[int]:
    """Where each batch begins, and the end of the last: each as large as `batch_size` tokens with padding allow.

    Args:
        longest: tokens of the longer sentence of each pair, none above batch_size.
    """
    edges = [0]
    while edges[-1] < len(longest):
        start = edges[-1]
        candidates = longest[start : start + batch_size // longest[start]]
        tokens = np.maximum.accumulate(candidates) * np.arange(1, len(candidates) + 1)
        count = int(np.searchsorted(tokens, batch_size, side="right"))
        is_last = start + count == len(longest)
        edges.append(start + (count if is_last or count < ROUND else count - count % ROUND))
    return edges


def padded(sentences: Sequence[Tensor]) -> Tensor:
    """One row a sentence, filled up at its end."""
    return pad_sequence(list(sentences), batch_first=True, padding_value=PAD)
