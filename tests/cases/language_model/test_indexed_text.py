"""Megatron's indexed form: what is read and written byte for byte; packing; damaged files are named."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cases.language_model.data import PackedTokens
from cases.language_model.indexed import Shard, ShardWriter
from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.ranks import World

TEXTS = [[7, 1, 2], [3], [4, 5, 6, 0, 9]]


def megatron(folder: Path, kind: int, letter: str, texts: list[list[int]], name: str = "text") -> Path:
    """The two files as Megatron-LM's IndexedDatasetBuilder lays them out; `letter`: of a token for struct."""
    sizes = [len(text) for text in texts]
    begins = [sum(sizes[:number]) * struct.calcsize(letter) for number in range(len(sizes))]
    tokens = [token for text in texts for token in text]
    folder.joinpath(f"{name}.bin").write_bytes(struct.pack(f"<{len(tokens)}{letter}", *tokens))
    index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, kind, len(sizes), len(sizes) + 1)
    index += struct.pack(f"<{len(sizes)}i{len(sizes)}q", *sizes, *begins)
    folder.joinpath(f"{name}.idx").write_bytes(index + struct.pack(f"<{len(sizes) + 1}q", *range(len(sizes) + 1)))
    return folder / f"{name}.bin"


def rows(data: PackedTokens) -> list[list[int]]:
    return [data[number].tolist() for number in range(len(data))]


@pytest.mark.parametrize(
    ("kind", "letter"),
    [
        pytest.param(8, "H", id="uint16, as of small vocabularies"),
        pytest.param(4, "i", id="int32, as of large ones"),
        pytest.param(1, "B", id="uint8"),
        pytest.param(5, "q", id="int64"),
    ],
)
def test_reads_megatrons_files(tmp_path: Path, kind: int, letter: str) -> None:
    shard = Shard(megatron(tmp_path, kind, letter, TEXTS))
    shard.check()
    assert shard.tokens.tolist() == [7, 1, 2, 3, 4, 5, 6, 0, 9]
    assert shard.index.lengths.tolist() == [3, 1, 5]


@pytest.mark.parametrize(
    ("vocab_size", "kind", "letter"),
    [pytest.param(256, 8, "H", id="bytes"), pytest.param(128256, 4, "i", id="Llama 3")],
)
def test_writes_megatrons_files(tmp_path: Path, vocab_size: int, kind: int, letter: str) -> None:
    wanted = megatron(tmp_path, kind, letter, TEXTS)
    with ShardWriter(tmp_path / "own" / "text.bin", vocab_size) as writer:
        writer.add(np.array(text, np.int64) for text in [TEXTS[0], [], *TEXTS[1:]])
    for suffix in (".bin", ".idx"):
        assert writer.path.with_suffix(suffix).read_bytes() == wanted.with_suffix(suffix).read_bytes()


def test_each_token_is_predicted_once(tmp_path: Path) -> None:
    """Documents follow each other without gaps, also from one file to the next."""
    folder = tmp_path / "shards"
    folder.mkdir()
    texts = [list(range(10)), list(range(10, 13)), list(range(13, 30))]
    for number, text in enumerate(texts):
        megatron(folder, 8, "H", [text], name=f"{number}")
    together = rows(PackedTokens(str(megatron(tmp_path, 8, "H", texts)), 4, 256))
    assert rows(PackedTokens(str(folder), 4, 256)) == together
    assert [token for row in together for token in row[1:]] == list(range(1, 29))
    assert all(before[-1] == after[0] for before, after in itertools.pairwise(together))
    assert rows(PackedTokens(str(folder), 4, 256, most=2)) == together[:2]


def test_the_seed_decides_the_order(tmp_path: Path) -> None:
    """The same on all ranks together, another in each epoch, and found again from the middle on."""
    data = PackedTokens(str(megatron(tmp_path, 8, "H", [list(range(200))])), 4, 256)

    def taken(seed: int, size: int, epoch: int = 1, step: int = 0, steps: int = 6) -> list[int]:
        ranks = [TrainBatches(data, 8 // size, 1, World(rank, size), seed) for rank in range(size)]
        found = []
        for batches in ranks:
            batches.start_at(epoch, step)
        iterators = [iter(batches) for batches in ranks]
        for _ in range(steps):
            found.append(sorted(index for iterator in iterators for index in next(iterator)[1]))
        return [index for step_ in found for index in step_]

    assert taken(1, 1) == taken(1, 1) == taken(1, 2)
    assert taken(1, 1)[16:] == taken(1, 1, step=2, steps=4)
    assert len(set(taken(1, 1))) == 48
    assert taken(1, 1) != taken(2, 1)
    assert taken(1, 1) != taken(1, 1, epoch=2)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def other(path: Path, offset: int, value: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[offset : offset + len(value)] = value
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        pytest.param(lambda path: path.with_suffix(".idx").unlink(), "no such file", id="no index"),
        pytest.param(lambda path: path.unlink(), "no such file", id="no tokens"),
        pytest.param(cut, "do not fit each other", id="a copy that ended early"),
        pytest.param(lambda path: cut(path.with_suffix(".idx")), "is not complete", id="an index that ended early"),
        pytest.param(lambda path: other(path.with_suffix(".idx"), 0, b"TOKENS"), "no index", id="another format"),
        pytest.param(lambda path: other(path.with_suffix(".idx"), 17, b"\7"), "no index", id="numbers with fractions"),
        pytest.param(lambda path: other(path.with_suffix(".idx"), 34, b"\2"), "overlap or leave gaps", id="a gap"),
        pytest.param(lambda path: other(path, 0, b"\xff\xff"), "tokens that the network does not", id="a large token"),
        pytest.param(lambda path: megatron(path.parent, 8, "H", []), "no tokens in this file", id="empty"),
        pytest.param(lambda path: megatron(path.parent, 8, "H", [[1, 2]]), "not enough tokens", id="too short"),
    ],
)
def test_what_is_damaged_is_named(tmp_path: Path, harm: Callable[[Path], object], message: str) -> None:
    path = megatron(tmp_path, 8, "H", TEXTS)
    harm(path)
    with pytest.raises(ConfigError, match=message) as caught:
        data = PackedTokens(str(path), 4, 256)
        assert isinstance(data[0], torch.Tensor)
        data.check()
    assert str(path.parent) in str(caught.value)
