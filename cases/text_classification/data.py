"""Tokenised sentences with their classes, in the NumPy files that FlagPerf publishes for its case distilbert."""

from __future__ import annotations

from cases.token_arrays import TokenArrays


class Sentences(TokenArrays):
    """Samples of int64: `input_ids` and `attention_mask`, each [length], and `label`.

    Args:
        path: an .npz file with these three arrays.
        vocab_size, classes: the network knows tokens and classes below these numbers.
    """

    def __init__(self, path: str, vocab_size: int, classes: int) -> None:
        super().__init__(path, {"input_ids": (0, vocab_size - 1), "attention_mask": (0, 1), "label": (0, classes - 1)})
