"""WMT14's parallel text → tokens: learns the joint vocabulary, then encodes every sentence once.

The original recipe (the `--scaling18` mode of fairseq's prepare-wmt14en2de.sh) splits words with Moses and subword-nmt;
sentencepiece does the work of both on the text itself, and its byte-pair encoding is learned from the same text.
"""

from __future__ import annotations

import html
import io
import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Tuple

import numpy as np

from cases.transformer.data import BEGIN, END, PAD, PLACE, TOKEN, UNKNOWN
from flagperf.errors import ConfigError
from flagperf.trainer.data import texts

log = logging.getLogger(__name__)

SOURCE, TARGET = "en", "de"
CHUNK = 20_000  # pairs that are encoded at once
LEARN_FROM = 2_000_000  # sentences at most, drawn by chance: sentencepiece keeps them in memory
PROGRESS = 10.0  # seconds between two log lines

SEGMENT = re.compile(r"<seg id=[^>]*>\s*(.*?)\s*</seg>")

Texts = Tuple[str, str]  # a sentence in both languages


def tokenize_corpora(
    source: str | Path,
    folder: str | Path,
    corpora: Sequence[str],
    test: Mapping[str, str],
    vocab_size: int,
    max_length: int,
    max_ratio: float,
) -> None:
    """Write the files that cases/transformer/data.py describes.

    Args:
        source: folder of the unpacked archives.
        folder: where to write.
        corpora: files with the training text below `source`, without their ends .en and .de; line by line translations.
        test: language → file with the test set below `source`, in text or in SGML (.sgm).
        vocab_size: tokens, BEGIN, PAD, END and UNKNOWN among them.
        max_length: training pairs with a sentence of more tokens are left out …
        max_ratio: … and so are those with an empty one, or one of more than so many times the tokens of the other.

    Raises:
        ConfigError: a file is missing or not in UTF-8, the languages have different numbers of lines, or the text does
            not give a vocabulary of that size.
    """
    if vocab_size > np.iinfo(TOKEN).max + 1:
        raise ConfigError(
            "tokens are stored in two bytes",
            where="config.yaml",
            key="data.prepare.vocab_size",
            given=vocab_size,
            allowed="65536 at most",
        )
    source, folder = Path(source), Path(folder)
    pairs = [(source / f"{name}.{SOURCE}", source / f"{name}.{TARGET}") for name in corpora]
    tests = source / test[SOURCE], source / test[TARGET]
    for path in chain(*pairs, tests):
        if not path.is_file():
            raise ConfigError("no such file in the source", where=str(path), key="source")

    model = learn_vocabulary(chain.from_iterable(parallel(pairs)), vocab_size)
    (folder / "sentencepiece.model").write_bytes(model)
    from sentencepiece import SentencePieceProcessor

    vocabulary = SentencePieceProcessor(model_proto=model)
    encode_pairs(vocabulary, parallel(pairs), folder, max_length, max_ratio)
    encode_test(vocabulary, tests, folder)


def learn_vocabulary(sentences: Iterator[str], vocab_size: int) -> bytes:
    """A sentencepiece model of byte pairs, the same for the same sentences."""
    import sentencepiece

    model, failed = io.BytesIO(), []

    def watched() -> Iterator[str]:
        """The sentences; sentencepiece would bury an error in reading them in a message of its own."""
        try:
            yield from sentences
        except ConfigError as error:
            failed.append(error)
            raise

    def learn() -> None:
        sentencepiece.set_random_generator_seed(0)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=watched(),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            input_sentence_size=LEARN_FROM,
            bos_id=BEGIN,
            pad_id=PAD,
            eos_id=END,
            unk_id=UNKNOWN,
            minloglevel=2,
        )

    began = time.monotonic()
    with ThreadPoolExecutor(1) as thread:
        learning = thread.submit(learn)
        while wait([learning], timeout=PROGRESS).not_done:
            log.info("learning the vocabulary: %.0f s", time.monotonic() - began)
    if failed:
        raise failed[0]
    if error := learning.exception():  # such as a text with fewer different pairs
        raise ConfigError(
            "cannot learn a vocabulary of this size from this text",
            where="config.yaml",
            key="data.prepare.vocab_size",
            given=vocab_size,
            advice=str(error),
        ) from error
    return model.getvalue()


def encode_pairs(vocabulary: Any, pairs: Iterator[Texts], folder: Path, max_length: int, max_ratio: float) -> None:
    """Write the training pairs as tokens, those that are too long or too unlike left out."""
    read = kept = 0
    logged = time.monotonic()
    while chunk := list(islice(pairs, CHUNK)):
        sides = (vocabulary.encode(list(texts), out_type=int, add_eos=True) for texts in zip(*chunk))
        good = [pair for pair in zip(*sides) if is_clean(*pair, max_length, max_ratio)]
        append(folder / f"train.{SOURCE}", [sentence for sentence, _ in good])
        append(folder / f"train.{TARGET}", [sentence for _, sentence in good])
        read, kept = read + len(chunk), kept + len(good)
        if time.monotonic() - logged > PROGRESS:
            log.info("encoded %d pairs, kept %d", read, kept)
            logged = time.monotonic()
    log.info("kept %d of %d pairs", kept, read)


def is_clean(source: Sequence[int], target: Sequence[int], max_length: int, max_ratio: float) -> bool:
    """Whether a pair of sentences, which end with END, is good for training."""
    shorter, longer = sorted((len(source) - 1, len(target) - 1))
    return shorter >= 1 and longer <= max_length and longer <= max_ratio * shorter


def encode_test(vocabulary: Any, paths: tuple[Path, Path], folder: Path) -> None:
    """Write the test sentences as tokens, and their references as text."""
    sentences, references = zip(*parallel([paths]))
    append(folder / f"test.{SOURCE}", vocabulary.encode(list(sentences), out_type=int, add_eos=True))
    (folder / f"test.{TARGET}").write_bytes("".join(f"{line}\n" for line in references).encode())


def append(path: Path, sentences: Sequence[Sequence[int]]) -> None:
    """Write sentences behind those that the .bin and .idx files of a path hold."""
    with Path(f"{path}.bin").open("ab") as tokens, Path(f"{path}.idx").open("ab") as starts:
        if not starts.tell():
            starts.write(np.zeros(1, PLACE).tobytes())
        ends = tokens.tell() // TOKEN.itemsize + np.cumsum([len(sentence) for sentence in sentences], dtype=PLACE)
        starts.write(ends.tobytes())
        tokens.write(np.fromiter(chain.from_iterable(sentences), TOKEN).tobytes())


def parallel(paths: Iterable[tuple[Path, Path]]) -> Iterator[Texts]:
    """The lines of pairs of files, one pair after the other, without keeping them in memory."""
    for source, target in paths:
        for number, (text, translation) in enumerate(zip_longest(lines(source), lines(target))):
            if text is None or translation is None:
                raise ConfigError(
                    "the two languages have different numbers of lines",
                    where=str(source if text is None else target),
                    key="source",
                    given=f"{number} lines",
                    allowed=f"as many as in {target if text is None else source}",
                )
            yield text, translation


def lines(path: Path) -> Iterator[str]:
    """Sentences of a text file, one a line, or of an SGML file, one in each <seg> element.

    Characters that Unicode counts as line ends, beside the line feed, occur in the text of one language only.
    """
    for text in map(str.strip, texts.lines(path, "source")):
        if path.suffix != ".sgm":
            yield text
        elif segment := SEGMENT.search(text):
            yield html.unescape(segment[1])
