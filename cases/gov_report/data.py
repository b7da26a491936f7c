"""Sequences of reports with their summaries, in NumPy files that `flagperf data prepare` writes."""

from __future__ import annotations

from cases.token_arrays import TokenArrays

NOT_COUNTED = -100  # the label of a token that the loss leaves out, as in PyTorch's cross-entropy


class Reports(TokenArrays):
    """Samples of int64: `input_ids` and `labels`, each [length]. A label is its own token, or NOT_COUNTED.

    Args:
        path: an .npz file with these two arrays.
        vocab_size: the network knows tokens below this number.
    """

    def __init__(self, path: str, vocab_size: int) -> None:
        super().__init__(path, {"input_ids": (0, vocab_size - 1), "labels": (NOT_COUNTED, vocab_size - 1)})
