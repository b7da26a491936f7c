"""CPM's tokens, as TsinghuaAI/CPM-1-Finetune makes them: jieba cuts words, sentencepiece cuts words into pieces."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache

from flagperf.errors import ConfigError

PAD, END = "<pad>", "<eod>"  # pieces of the model: filling, and the end of a document
KEPT = str.maketrans(" \n", "▂▃")  # sentencepiece would lose spaces and line ends


class Tokenizer:
    """Text to tokens.

    Args:
        path: sentencepiece model with the pieces PAD and END, such as bpe_3w_new/chinese_vocab.model.
        vocab_size: how many tokens the network knows.
    """

    def __init__(self, path: str, vocab_size: int) -> None:
        from sentencepiece import SentencePieceProcessor

        try:
            self.pieces = SentencePieceProcessor(model_file=path)
        except (OSError, RuntimeError) as error:
            raise ConfigError("cannot read the sentencepiece model", where=path, given=str(error)) from None
        if len(self.pieces) > vocab_size:
            raise ConfigError(
                "the sentencepiece model has more tokens than the network",
                where=path,
                key="data_dir",
                given=len(self.pieces),
                allowed=f"at most {vocab_size}",
                advice="use the data set that belongs to this size",
            )
        self.pad, self.end = (self.pieces.piece_to_id(piece) for piece in (PAD, END))
        if self.pieces.unk_id() in (self.pad, self.end):
            raise ConfigError(f"the sentencepiece model lacks {PAD} or {END}", where=path, key="data_dir")
        _words()  # loads the dictionary once, for the processes of all loaders too

    def encode(self, text: str) -> list[int]:
        """Tokens of the text, without an end."""
        tokens: list[int] = self.pieces.encode(segmented(text))
        return tokens


def segmented(text: str) -> str:
    """The words of a text with spaces between them; its own spaces and line ends become ▂ and ▃."""
    return " ".join(word.translate(KEPT) for word in _words()(text))


@lru_cache(maxsize=None)
def _words() -> Callable[[str], Iterable[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba has old string literals and uses an old part of setuptools
        import jieba

    jieba.setLogLevel(logging.WARNING)
    jieba.initialize()
    cut: Callable[[str], Iterable[str]] = jieba.cut
    return cut
