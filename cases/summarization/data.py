"""Tokenised articles with their summaries, in the NumPy files that FlagPerf publishes for its case t5_small."""

from __future__ import annotations

from cases.token_arrays import TokenArrays

NO_TOKEN = -100  # fills a summary; PyTorch's cross-entropy leaves this number out


class Articles(TokenArrays):
    """Samples of int64: `input_ids` and `attention_mask`, each [article], and `labels`, [summary].

    Args:
        path: an .npz file with these three arrays.
        vocab_size: the network knows tokens below this number.
    """

    def __init__(self, path: str, vocab_size: int) -> None:
        tokens = vocab_size - 1
        super().__init__(path, {"input_ids": (0, tokens), "attention_mask": (0, 1), "labels": (NO_TOKEN, tokens)})
