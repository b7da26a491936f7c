"""Sequences of tokenised text with some hidden tokens."""

from __future__ import annotations

from typing import Tuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from cases.language_model.data import PackedTokens

Sample = Tuple[Tensor, Tensor, Tensor]


class HiddenTokens(Dataset[Sample]):
    """Samples (read, tokens, hidden), each [length]: the text as it is read, the text, and where to predict it.

    Which tokens are hidden is drawn again at each reading of a sample, by the random numbers of the loader.

    Args:
        text: sequences of one token more, which is left out.
        share: of the tokens that are hidden.
        mask_token: the token that replaces them.
        replaced: share of the hidden tokens in whose place a random token is read.
        kept: share of the hidden tokens that are read as they are.
        fixed: whether a sequence has the same hidden tokens each time, drawn by its number.
    """

    def __init__(
        self,
        text: PackedTokens,
        share: float,
        mask_token: int,
        replaced: float = 0.0,
        kept: float = 0.0,
        fixed: bool = False,
    ) -> None:
        self.text, self.share, self.mask_token, self.fixed = text, share, mask_token, fixed
        self.replaced, self.kept = replaced, kept

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, index: int) -> Sample:
        tokens = self.text[index][:-1]
        generator = torch.Generator().manual_seed(index if self.fixed else int(torch.randint(2**31, ())))
        hidden, way = torch.rand((2, len(tokens)), generator=generator)
        chosen = hidden < self.share
        read = tokens.masked_fill(chosen & (way >= self.replaced + self.kept), self.mask_token)
        others = torch.randint(self.text.vocab_size, tokens.shape, generator=generator)
        return torch.where(chosen & (way < self.replaced), others, read), tokens, chosen

    def check(self) -> None:
        """Look at the whole index of each file of the text."""
        self.text.check()
