"""Text → tokens in Megatron's indexed form, by several processes. The verb `flagperf data prepare` calls it.

The source holds files of documents, .jsonl or .json, with .gz behind it or not, one JSON object with a `text` a line;
or .parquet with a column `text`. And it holds the tokenizer, a file of the tokenizers library.
"""

from __future__ import annotations

import gzip
import json
import logging
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, List, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cases.conversion import reported
from cases.language_model.indexed import ShardWriter
from flagperf.errors import ConfigError

log = logging.getLogger(__name__)

BATCH = 500  # documents that a process gets at a time
AHEAD = 3  # batches for each process that wait, so that none is idle
ROWS = 10_000  # rows of a parquet file that are read at a time

Documents = List[NDArray[Any]]


class Batch(NamedTuple):
    """Documents of one file: lines of JSON as they are there, or texts. `first`: number of the first, from 1."""

    path: str
    first: int
    documents: Sequence[bytes | str]


def tokenize(
    source: Path,
    folder: Path,
    train_path: str,
    eval_path: str,
    train_files: Sequence[str],
    eval_files: Sequence[str],
    eval_documents: int | None,
    tokenizer: str,
    vocab_size: int,
    end: int | None = None,
    processes: int | None = None,
) -> None:
    """Write one pair of files a split, documents in the order of the files' names and of their lines.

    Args:
        train_path, eval_path: .bin files below `folder`.
        train_files, eval_files: globs below `source`.
        eval_documents: how many documents of the evaluation are taken, the first ones; None: all.
        tokenizer: file below `source`.
        vocab_size: how many tokens the network knows.
        end: token that follows each document; None: none.
        processes: that tokenise; None: one for each core.

    Raises:
        ConfigError: the source lacks a file, or one of its files is not as described.
    """
    splits = ((eval_path, _found(source, eval_files), eval_documents), (train_path, _found(source, train_files), None))
    read_tokenizer(source / tokenizer, vocab_size)  # an error here, before any process starts
    processes = processes or os.cpu_count() or 1
    arguments = (str(source / tokenizer), vocab_size, end)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, initializer=_begin, initargs=arguments) as pool:
        for path, files, most in splits:
            batches = chain.from_iterable(_batches(file, most) for file in files)
            made = _in_order(pool, _tokens, batches, AHEAD * processes)
            documents = islice(chain.from_iterable(made), most)
            with ShardWriter(folder / path, vocab_size) as writer:
                writer.add(reported(documents, log, "%s: %d documents", path))
            log.info("%s: %d documents, %d tokens", path, len(writer.lengths), sum(writer.lengths))


def _found(source: Path, globs: Iterable[str]) -> list[Path]:
    """The files of some globs, in the order of their names."""
    wanted = list(globs)
    files = sorted({path for glob in wanted for path in source.glob(glob)})
    if not files:
        raise ConfigError("the source lacks files", key="source", given=source, allowed=", ".join(wanted))
    return files


def _in_order(
    pool: ProcessPoolExecutor, function: Callable[[Batch], Documents], batches: Iterable[Batch], ahead: int
) -> Iterator[Documents]:
    """The results of a function for each batch, in order; a limited number is computed ahead."""
    pending: deque[Future[Documents]] = deque()
    for batch in batches:
        pending.append(pool.submit(function, batch))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


# ---------------------------------------------------------------- reading


def _batches(path: Path, most: int | None) -> Iterator[Batch]:
    """The documents of a file, up to a limit."""
    documents = islice(_parquet(path) if path.suffix == ".parquet" else _lines(path), most)
    first = 1
    while batch := list(islice(documents, BATCH)):
        yield Batch(str(path), first, batch)
        first += len(batch)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file  # type: ignore[misc]  # gzip's reader is a file of bytes, too
    except (EOFError, gzip.BadGzipFile) as error:
        raise ConfigError("not a complete gzip file", where=str(path), key="source", given=error) from None


def _parquet(path: Path) -> Iterator[str]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ConfigError(
            "parquet files need the package pyarrow where the data is prepared",
            where=str(path),
            key="source",
            allowed=".jsonl, .jsonl.gz, .json.gz",
            advice="pip install 'flagperf[parquet]', or convert the files",
        ) from None
    try:
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        if "text" not in names:
            problem, given = "the parquet file has no column of texts", ", ".join(names)
            raise ConfigError(problem, where=str(path), key="source", given=given, allowed="a column named text")
        for rows in file.iter_batches(ROWS, columns=["text"]):
            yield from rows.column(0).to_pylist()
    except (ArrowException, OSError) as error:
        raise ConfigError("not a complete parquet file", where=str(path), key="source", given=error) from None


# ---------------------------------------------------------------- in each process

_tokenizer: Any = None
_after: list[int] = []


def _begin(path: str, vocab_size: int, end: int | None) -> None:
    global _tokenizer, _after
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes run side by side
    _tokenizer = read_tokenizer(Path(path), vocab_size)
    _after = [] if end is None else [end]


def read_tokenizer(path: Path, vocab_size: int) -> Any:
    """The tokenizer of a file of the tokenizers library. Raises ConfigError."""
    from tokenizers import Tokenizer

    if not path.is_file():
        raise ConfigError("the source has no tokenizer", key="source", given=path.parent, allowed=path.name)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no class of its own for it
        raise ConfigError("not a file of the tokenizers library", where=str(path), key="source", given=error) from None
    if tokenizer.get_vocab_size() > vocab_size:
        raise ConfigError(
            "the tokenizer has more tokens than the network",
            where=str(path),
            key="source",
            given=tokenizer.get_vocab_size(),
            allowed=f"at most {vocab_size}",
        )
    return tokenizer


def _tokens(batch: Batch) -> Documents:
    """The tokens of each document."""
    texts = [_text(document, batch, number) for number, document in enumerate(batch.documents, batch.first)]
    encoded = _tokenizer.encode_batch(texts, add_special_tokens=False)
    return [np.array([*text.ids, *_after], np.int32) for text in encoded]


def _text(document: bytes | str, batch: Batch, number: int) -> str:
    try:
        text = document if isinstance(document, str) else json.loads(document)["text"]
        if isinstance(text, str):
            return text
        given = f"a text of type {type(text).__name__}"
    except (ValueError, KeyError, TypeError) as error:
        given = f"{type(error).__name__}: {error}"
    raise ConfigError(f"line {number} is no document with a text", where=batch.path, key="source", given=given)
