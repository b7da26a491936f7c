"""Short conversations, one a line of UTF-8 text: `对话上文:<post> 回复:<reply>`."""

from __future__ import annotations

import unicodedata
from typing import Tuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from cases.cpm.tokens import Tokenizer
from flagperf.errors import ConfigError
from flagperf.trainer.data.texts import lines

IGNORED = -100  # the label where nothing is to be predicted; PyTorch's losses leave it out


class Conversations(Dataset[Tuple[Tensor, Tensor]]):
    """Tokens of the lines and, as labels, the token that follows each, padded to `length`.

    A line is tokens up to its end and `<eod>`. One with more than `length` + 1 of them makes several samples, which
    begin so many tokens apart. A sample makes its tokens on access; for the whole data set that would take a minute.

    Args:
        path: text file.
        tokenizer: path of the sentencepiece model.
        vocab_size: how many tokens the network knows.
        length: tokens of a sample.
    """

    def __init__(self, path: str, tokenizer: str, vocab_size: int, length: int) -> None:
        self.tokenizer = Tokenizer(tokenizer, vocab_size)
        self.length = length
        self.lines = [f"{line}\n" for line in lines(path)]
        if not self.lines:
            raise ConfigError("no conversations in this split of the data set", where=path, key="data_dir")
        self.samples = [(number, start) for number, line in enumerate(self.lines) for start in self._starts(line)]

    def _starts(self, line: str) -> range:
        """Where the samples of a line begin among its tokens. A lone `<eod>` has nothing to predict."""
        if _most_tokens(line) <= self.length + 1:
            return range(1)
        return range(0, len(self._tokens(line)) - 1, self.length + 1)

    def _tokens(self, line: str) -> list[int]:
        return [*self.tokenizer.encode(line), self.tokenizer.end]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        number, start = self.samples[index]
        tokens = torch.full((self.length + 1,), self.tokenizer.pad)
        part = self._tokens(self.lines[number])[start : start + self.length + 1]
        tokens[: len(part)] = torch.tensor(part)
        labels = tokens[1:].clone()
        labels[len(part) - 1 :] = IGNORED
        return tokens[:-1], labels


def conversation(post: str, reply: str) -> str:
    """One line of the text files."""
    return f"对话上文:{post} 回复:{reply}\n"


def _most_tokens(line: str) -> int:
    """An upper bound of the tokens of a line and `<eod>`, a hundred times faster than making them.

    A token holds at least one character of sentencepiece's input: the normalized characters (NFKC makes several from
    some), with a space before each word.
    """
    return len(unicodedata.normalize("NFKC", line)) + len(line) + 1
