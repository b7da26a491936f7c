"""Tokenised text in Megatron's indexed form: <name>.bin holds the tokens of all documents, <name>.idx where each lies.

The index is little-endian:

    9 bytes             MMIDIDX and two zeros
    uint64              its version, 1
    uint8               what numbers the tokens are: a key of KINDS
    uint64              how many sequences there are; a text is one
    uint64              how many entries the list of documents has, one more than documents
    int32 x sequences   tokens of each sequence
    int64 x sequences   where each begins in .bin, in bytes
    int64 x entries     the first sequence of each document; the last entry is the number of sequences
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flagperf.errors import ConfigError

MAGIC, VERSION = b"MMIDIDX\x00\x00", 1
HEADER = struct.Struct("<9sQBQQ")
KINDS = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}


class Index(NamedTuple):
    """The content of an index. The arrays are read from the disk on access."""

    kind: np.dtype[Any]  # of the tokens
    lengths: NDArray[np.int32]  # tokens of each sequence
    begins: NDArray[np.int64]  # bytes
    documents: NDArray[np.int64]  # first sequence of each, and the end


class Shard:
    """One pair of files, opened in no time however large it is.

    Attributes:
        path: the .bin file.
        tokens: all that it holds, read from the disk when they are used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = _read_index(path.with_suffix(".idx"))
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise ConfigError("no such file in the data set", where=str(path), key="data_dir") from None
        end = self._end()
        if size != end:
            raise self._damaged(f"{size:,} bytes", f"the {end:,} that the index states")
        if not size:
            raise ConfigError("no tokens in this file of the data set", where=str(path), key="data_dir")
        self.tokens: NDArray[Any] = np.memmap(path, self.index.kind, "r")

    def _end(self) -> int:
        """Where the last sequence ends, in bytes."""
        kind, lengths, begins, _ = self.index
        return int(begins[-1]) + int(lengths[-1]) * kind.itemsize if len(begins) else 0

    def check(self) -> None:
        """Look at all of the index, which takes seconds.

        Raises:
            ConfigError: sequences overlap or leave gaps, or are in no document.
        """
        kind, lengths, begins, documents = self.index
        ends = begins + lengths.astype(np.int64) * kind.itemsize
        if begins[0] != 0 or (begins[1:] != ends[:-1]).any():
            raise self._damaged("sequences that overlap or leave gaps", "sequences one after the other")
        if documents[0] != 0 or documents[-1] != len(lengths) or (np.diff(documents) < 0).any():
            raise self._damaged("documents that do not follow each other", "each sequence in one document")

    def documents(self, begin: int, end: int) -> NDArray[np.int64]:
        """The number of the document of each token from `begin` to before `end`."""
        kind, _, begins, documents = self.index
        first = int(np.searchsorted(begins, begin * kind.itemsize, "right")) - 1
        last = int(np.searchsorted(begins, end * kind.itemsize, "left"))
        edges = np.array([begin, *(begins[first + 1 : last] // kind.itemsize), end])
        numbers = np.searchsorted(documents, np.arange(first, last), "right") - 1
        return np.repeat(numbers, np.diff(edges)).astype(np.int64)

    def _damaged(self, given: str, allowed: str) -> ConfigError:
        advice = "copy both files again, or make them again"
        problem = "the two files of the tokenised text do not fit each other"
        return ConfigError(problem, where=str(self.path), key="data_dir", given=given, allowed=allowed, advice=advice)


def check_tokens(tokens: NDArray[Any], vocab_size: int, path: Path) -> None:
    """Refuse tokens outside of the network's vocabulary."""
    least, most = int(tokens.min()), int(tokens.max())
    if least < 0 or most >= vocab_size:
        raise ConfigError(
            "the text has tokens that the network does not know",
            where=str(path),
            key="data_dir",
            given=most if most >= vocab_size else least,
            allowed=f"0 to {vocab_size - 1}",
            advice="use data that was made with the tokenizer of the case",
        )


def _read_index(path: Path) -> Index:
    try:
        with path.open("rb") as file:
            header = file.read(HEADER.size)
        size = path.stat().st_size
    except FileNotFoundError:
        raise ConfigError("no such file in the data set", where=str(path), key="data_dir") from None
    magic, version, kind, sequences, entries = HEADER.unpack(header.ljust(HEADER.size, b"\0"))
    if magic != MAGIC or version != VERSION or kind not in KINDS:
        raise ConfigError(
            "this is no index of tokenised text",
            where=str(path),
            key="data_dir",
            given=f"{magic!r}, version {version}, numbers of kind {kind}",
            allowed=f"{MAGIC!r}, version {VERSION}, {', '.join(map(str, KINDS))}",
        )
    wanted = HEADER.size + 12 * sequences + 8 * entries
    if size < wanted:
        raise ConfigError(
            "the index of the tokenised text is not complete",
            where=str(path),
            key="data_dir",
            given=f"{size:,} bytes",
            allowed=f"{wanted:,} for {sequences:,} sequences",
        )
    begins = HEADER.size + 4 * sequences
    return Index(
        np.dtype(KINDS[kind]),
        _array(path, "<i4", HEADER.size, sequences),
        _array(path, "<i8", begins, sequences),
        _array(path, "<i8", begins + 8 * sequences, entries),
    )


def _array(path: Path, kind: str, offset: int, count: int) -> NDArray[Any]:
    return np.memmap(path, kind, "r", offset, (count,)) if count else np.empty(0, kind)


class ShardWriter:
    """Writes one pair of files, a document a sequence; the index when its block ends well.

    Args:
        path: the .bin file; its folder is made.
        vocab_size: all tokens are below it. Megatron writes two bytes a token where that is enough.
    """

    def __init__(self, path: Path, vocab_size: int) -> None:
        self.path, self.kind = path, np.dtype("uint16" if vocab_size < 65500 else "int32")
        self.lengths: list[int] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("wb")

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self.file.close()
        if error is None:
            self._write_index()

    def add(self, documents: Iterable[NDArray[Any]]) -> None:
        """Write the tokens of documents; one without a token is left out."""
        for tokens in documents:
            if len(tokens):
                self.file.write(tokens.astype(self.kind, copy=False).tobytes())
                self.lengths.append(len(tokens))

    def _write_index(self) -> None:
        lengths = np.array(self.lengths, "<i4")
        begins = np.cumsum([0, *self.lengths[:-1]], dtype="<i8") * self.kind.itemsize
        kind = next(code for code, name in KINDS.items() if name == self.kind.name)
        with self.path.with_suffix(".idx").open("wb") as file:
            file.write(HEADER.pack(MAGIC, VERSION, kind, len(lengths), len(lengths) + 1))
            for array in (lengths, begins[: len(lengths)], np.arange(len(lengths) + 1, dtype="<i8")):
                file.write(array.tobytes())
