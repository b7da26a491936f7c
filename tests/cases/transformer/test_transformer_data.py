"""transformer: what is read is what was written, batches are as large as they may be, and bad files are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cases.transformer.data import END, PAD, EvalSentences, Sentences, TrainPairs, batch_edges
from cases.transformer.prepare import append
from flagperf.errors import ConfigError

SOURCE = [[7, 8, 9, END], [10, END], [11, 12, END]]
TARGET = [[20, END], [21, 22, END], [60_000, 23, 24, 25, END]]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Three pairs of training, and three sentences with their references."""
    append(tmp_path / "train.en", SOURCE[:1])
    append(tmp_path / "train.en", SOURCE[1:])
    append(tmp_path / "train.de", TARGET)
    append(tmp_path / "test.en", SOURCE)
    (tmp_path / "test.de").write_text("drei\neins\x85 \u2028eins\n\n", encoding="utf-8")
    return tmp_path


def train_pairs(folder: Path) -> TrainPairs:
    return TrainPairs(str(folder / "train.en"), str(folder / "train.de"))


def eval_sentences(folder: Path) -> EvalSentences:
    return EvalSentences(str(folder / "test.en"), str(folder / "test.de"))


def test_pairs_are_read_back(written: Path) -> None:
    pairs = train_pairs(written)
    assert [(source.tolist(), target.tolist()) for source, target in (pairs[i] for i in range(3))] == list(
        zip(SOURCE, TARGET, strict=True)
    )


def test_batches_are_padded_at_their_ends(written: Path) -> None:
    pairs = train_pairs(written)
    batch = TrainPairs.collate_fn([pairs[0], pairs[2]])
    assert {name: values if name == "tokens" else values.tolist() for name, values in batch.items()} == {
        "source": [[7, 8, 9, END], [11, 12, END, PAD]],
        "target": [[20, END, PAD, PAD, PAD], [60_000, 23, 24, 25, END]],
        "tokens": 7,
    }


def test_sentences_to_translate_come_shortest_first(written: Path) -> None:
    sentences = eval_sentences(written)
    batch = EvalSentences.collate_fn([sentences[i] for i in range(len(sentences))])
    assert batch["source"].tolist() == [[10, END, PAD, PAD], [11, 12, END, PAD], [7, 8, 9, END]]
    assert batch["references"] == ["eins\x85 \u2028eins", "", "drei"]


@pytest.mark.parametrize(
    ("longest", "size", "edges"),
    [
        pytest.param([2, 2, 3, 3, 4], 6, [0, 2, 4, 5], id="padded to the longest"),
        pytest.param([3, 1, 1], 6, [0, 2, 3], id="a long one first"),
        pytest.param([6], 6, [0, 1], id="one that just fits"),
        pytest.param([1] * 11, 10, [0, 8, 11], id="a multiple of eight, except at the end"),
        pytest.param([1] * 10, 10, [0, 10], id="all in one"),
    ],
)
def test_batches_are_as_large_as_they_may_be(longest: list[int], size: int, edges: list[int]) -> None:
    assert batch_edges(np.array(longest), size) == edges


def test_each_pair_is_in_one_batch_of_the_size(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 30, size=(2, 500))
    for language, sizes in zip(("en", "de"), lengths, strict=True):
        append(tmp_path / f"train.{language}", [[5] * size for size in sizes])
    pairs = train_pairs(tmp_path)
    batches = pairs.batches(200, torch.Generator().manual_seed(1))
    assert sorted(index for batch in batches for index in batch) == list(range(500))
    largest = [len(batch) * lengths[:, batch].max() for batch in batches]
    assert max(largest) <= 200
    assert lengths.max(axis=0).sum() / sum(largest) > 0.8  # little padding

    assert batches == pairs.batches(200, torch.Generator().manual_seed(1))
    other = pairs.batches(200, torch.Generator().manual_seed(2))
    assert {frozenset(batch) for batch in other} != {frozenset(batch) for batch in batches}
    means = [lengths[0, batch].mean() for batch in batches]
    assert means != sorted(means)


def test_a_batch_holds_the_longest_sentence(written: Path) -> None:
    assert sorted(train_pairs(written).batches(5, torch.Generator())) == [[0], [1], [2]]
    with pytest.raises(ConfigError) as caught:
        train_pairs(written).batches(4, torch.Generator())
    assert str(caught.value) == (
        "the longest sentence does not fit into a batch\n  where:   config.yaml\n  key:     train_batch_size\n"
        "  given:   4 tokens\n  allowed: at least 5"
    )


def cut_off(folder: Path) -> None:
    path = folder / "train.en.bin"
    path.write_bytes(path.read_bytes()[:-2])


def without_sentences(folder: Path) -> None:
    (folder / "train.de.bin").write_bytes(b"")
    (folder / "train.de.idx").write_bytes(np.zeros(1, np.int64).tobytes())


def one_reference_more(folder: Path) -> None:
    with (folder / "test.de").open("a") as file:
        file.write("vier\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda folder: (folder / "train.de.idx").unlink(),
            "no such file in the data set\n  where:   {folder}/train.de.idx\n  key:     data_dir",
            id="missing",
        ),
        pytest.param(
            cut_off,
            "the tokens and the places of the sentences do not belong together\n  where:   {folder}/train.en.bin\n"
            "  key:     data_dir\n  given:   16 bytes\n"
            "  do:      prepare the data again: flagperf data prepare model=transformer",
            id="cut off",
        ),
        pytest.param(
            without_sentences,
            "no sentences in this split of the data set\n  where:   {folder}/train.de.bin\n  key:     data_dir",
            id="empty split",
        ),
        pytest.param(
            lambda folder: append(folder / "train.de", [[5, END]]),
            "the two languages have different numbers of sentences\n  where:   {folder}/train.de\n  key:     data_dir\n"
            "  given:   4\n  allowed: 3, as in {folder}/train.en",
            id="a translation without its sentence",
        ),
        pytest.param(
            one_reference_more,
            "not every sentence has one reference\n  where:   {folder}/test.de\n  key:     data_dir\n"
            "  given:   4 lines\n  allowed: 3, as in {folder}/test.en",
            id="a reference without its sentence",
        ),
        pytest.param(
            lambda folder: (folder / "test.de").unlink(),
            "no such file in the data set\n  where:   {folder}/test.de\n  key:     data_dir",
            id="references missing",
        ),
        pytest.param(
            lambda folder: (folder / "test.de").write_bytes(b"\xff\n"),
            "not UTF-8 text\n  where:   {folder}/test.de:1\n  key:     data_dir\n"
            "  given:   byte 0xff behind ''\n"
            "  allowed: a text file in UTF-8\n  do:      convert the file, such as by: iconv -f LATIN1 -t UTF-8 FILE",
            id="references in another encoding",
        ),
    ],
)
def test_what_cannot_be_used_is_named(written: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(written)
    with pytest.raises(ConfigError) as caught:
        train_pairs(written), eval_sentences(written)
    assert str(caught.value) == message.format(folder=written)


def test_nothing_is_read_before_it_is_asked_for(written: Path) -> None:
    assert isinstance(Sentences(str(written / "train.en")).tokens, np.memmap)
