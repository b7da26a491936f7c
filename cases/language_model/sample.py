"""Sample data of language models: the manual that Python brings along, English prose, as bytes in UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases.language_model.indexed import ShardWriter
from flagperf.errors import ConfigError

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
    """The topics of pydoc's help. Paragraphs that several have come once, so that none is in both splits."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise ConfigError(
            "this Python lacks the text for sample data",
            given="no module pydoc_data",
            advice="use a whole Python, or real data: data_dir=PATH",
        ) from None
    known: set[str] = set()
    for name in sorted(topics):
        new = [text for text in dict.fromkeys(topics[name].split("\n\n")) if text not in known]
        known.update(new)
        if new:
            yield np.frombuffer("\n\n".join(new).encode() + b"\0", np.uint8)


def _cut(texts: Iterable[NDArray[Any]], tokens: int) -> Iterator[NDArray[Any]]:
    """The texts again and again, up to a number of tokens."""
    for text in cycle(texts):
        yield text[:tokens]
        tokens -= len(text)
        if tokens <= 0:
            return
