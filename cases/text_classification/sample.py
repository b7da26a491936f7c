"""Sample data of text classification: sentences of random words, of class 1 where good words outnumber bad ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CLS, SEP = 1, 2  # 0 fills a sentence
GOOD, BAD, OTHER = 3, 7, 11  # the first words of each kind
SHORTEST = 6  # tokens of a sentence


def write_sentences(
    folder: str | Path, train_path: str, eval_path: str, train: int, eval: int, length: int, vocab_size: int
) -> None:
    """Write one .npz file a split.

    Args:
        train_path, eval_path: files below the folder.
        train, eval: sentences of a split.
        length: tokens of a sentence with its filling.
        vocab_size: all tokens are below it.
    """
    random = np.random.RandomState(0)
    for path, count in ((train_path, train), (eval_path, eval)):
        lengths = random.randint(SHORTEST, length + 1, size=count)
        label = random.randint(2, size=count)
        ids = random.randint(OTHER, vocab_size, size=(count, length))
        opinions = np.where(label, GOOD, BAD)[:, None] + random.randint(4, size=(count, 3))
        places = 1 + np.argsort(random.rand(count, SHORTEST - 2), axis=1)[:, :3]
        np.put_along_axis(ids, places, opinions, axis=1)
        ids[:, 0] = CLS
        ids[np.arange(count), lengths - 1] = SEP
        mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, input_ids=ids * mask, attention_mask=mask, label=label)
