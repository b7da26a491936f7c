"""Sample data of masked language models: documents that count, so that a hidden number follows from its neighbours."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cases.language_model.indexed import ShardWriter

FIRST = 4  # the first number; smaller tokens are special
DOCUMENT = 200  # numbers of a document


def write_counting(
    folder: str | Path, train_path: str, eval_path: str, train_documents: int, eval_documents: int, vocab_size: int
) -> None:
    """Write one pair of files a split. A document counts up from a random number, round a clock of all numbers.

    Args:
        train_path, eval_path: .bin files below the folder.
        vocab_size: all tokens are below it.
    """
    random, numbers = np.random.RandomState(0), vocab_size - FIRST
    for path, documents in ((train_path, train_documents), (eval_path, eval_documents)):
        with ShardWriter(Path(folder, path), vocab_size) as writer:
            starts = random.randint(numbers, size=documents)
            writer.add(FIRST + (start + np.arange(DOCUMENT)) % numbers for start in starts)
