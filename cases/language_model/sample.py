"""Sample data of language models: the manual of Python 3.11.7 (pydoc's topics), English prose, as bytes in UTF-8.

manual.txt.gz has its topics in the order of their names; manual.LICENSE has its license. The manual that a Python
brings along differs by version, so trainings on two hosts would have other data.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases.language_model.indexed import ShardWriter

BYTES = 256  # tokens; 0 is in no text and ends each document
HELD_OUT = 10  # every so manieth topic is for the evaluation


def write_manual(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    train_tokens: int | None = None,
    eval_tokens: int | None = None,
) -> None:
    """Write one pair of files a split.

    Args:
        train_path, eval_path: .bin files below the folder.
        train_tokens, eval_tokens: the text is cut to so many tokens, or comes again and again until they are there;
            None: all of it, once.
    """
    topics = list(_topics())
    splits = (
        (train_path, [text for number, text in enumerate(topics) if number % HELD_OUT], train_tokens),
        (eval_path, topics[::HELD_OUT], eval_tokens),
    )
    for path, texts, tokens in splits:
        with ShardWriter(Path(folder, path), BYTES) as writer:
            writer.add(_cut(texts, tokens) if tokens else texts)


def _topics() -> Iterator[NDArray[Any]]:
    """The topics of the manual. Each ends with 0, and no paragraph is in two of them."""
    text = gzip.decompress(Path(__file__).with_name("manual.txt.gz").read_bytes())
    for topic in text.split(b"\0")[:-1]:
        yield np.frombuffer(topic + b"\0", np.uint8)


def _cut(texts: Iterable[NDArray[Any]], tokens: int) -> Iterator[NDArray[Any]]:
    """The texts again and again, up to a number of tokens."""
    for text in cycle(texts):
        yield text[:tokens]
        tokens -= len(text)
        if tokens <= 0:
            return
