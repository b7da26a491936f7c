"""BERT's shards: what is read is what lies on disk, in an order that needs no memory; damage is named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from cases.bert.data import ShardedExamples, shard_order
from cases.bert.examples import Example
from cases.bert.shard import write_shard
from flagperf.contract.components import component
from flagperf.errors import ConfigError


def example(number: int, not_next: bool = False) -> Example:
    """[CLS] n [MASK] [SEP] n [SEP], where the masked word is n + 1, and the second n is masked, but kept."""
    tokens = np.array([2, number, 4, 3, number, 3], dtype=np.int32)
    return Example(tokens, 4, not_next, np.array([2, 4]), np.array([number + 1, number]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards, one of them empty, beside a file that is none."""
    for shard, numbers in enumerate(([10, 11, 12], [], [20, 21])):
        path = tmp_path / f"part_{shard:05d}_of_00003.hdf5"
        write_shard(path, [example(number, number % 2 == 1) for number in numbers], length=8, predictions=3)
    (tmp_path / "readme.txt").write_text("not a shard")
    return tmp_path


def test_examples_are_read_back(folder: Path) -> None:
    data = ShardedExamples(str(folder))
    assert [int(data[i]["input_ids"][1]) for i in range(len(data))] == [10, 11, 12, 20, 21]
    assert {name: values.tolist() for name, values in data[4].items()} == {
        "input_ids": [2, 21, 4, 3, 21, 3, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "masked_places": [2, 4, 0],
        "masked_words": [22, 21, -100],
        "not_next": 1,
    }
    assert {values.dtype for values in data[4].values()} == {torch.int64}


def test_the_layout_is_that_of_the_original(folder: Path) -> None:
    with h5py.File(folder / "part_00000_of_00003.hdf5") as file:
        found = {name: (array.shape, array.dtype.str, array.compression) for name, array in file.items()}
    assert found == {
        "input_ids": ((3, 8), "<i4", None),
        "input_mask": ((3, 8), "|i1", None),
        "segment_ids": ((3, 8), "|i1", None),
        "masked_lm_positions": ((3, 3), "<i4", None),
        "masked_lm_ids": ((3, 3), "<i4", None),
        "next_sentence_labels": ((3,), "|i1", None),
    }


def test_an_epoch_goes_shard_by_shard() -> None:
    starts = [0, 40, 40, 100, 125]
    orders = [shard_order(starts, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    first, again, other = (list(order[0:125]) for order in orders)
    assert first == again != other
    assert sorted(first) == list(range(125))
    shard = [int(np.searchsorted(starts, number, side="right")) for number in first]
    assert sum(a != b for a, b in pairwise(shard)) == 2  # each shard is read once
    assert first[:3] != sorted(first[:3]) or first[3:6] != sorted(first[3:6])
    pieces = [number for start in range(0, 125, 7) for number in orders[0][start : start + 7]]
    assert pieces == first
    assert (orders[0][60], orders[0][120:130]) == (first[60], first[120:])


def test_training_takes_every_example_of_the_sample_data_once(tiny: Callable[[str], dict[str, Any]]) -> None:
    data = component(tiny("bert"), "train_data")
    order = data.order(torch.Generator().manual_seed(3))
    assert sorted(order[0 : len(order)]) == list(range(len(data)))
    assert len(data.paths) == 4
    assert len(data) > 8000


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def without_labels(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["next_sentence_labels"]


def empty(path: Path) -> None:
    for shard in path.parent.glob("part*"):
        shard.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(damaged, "cannot read the HDF5 file\n  where:   {path}\n  given:   1000 bytes; ", id="cut off"),
        pytest.param(
            without_labels,
            "the HDF5 file lacks some of its arrays\n  where:   {path}\n"
            "  given:   input_ids, input_mask, masked_lm_ids, masked_lm_positions, segment_ids\n"
            "  allowed: input_ids, input_mask, segment_ids, masked_lm_positions, masked_lm_ids, next_sentence_labels\n"
            "  do:      missing: next_sentence_labels",
            id="an array missing",
        ),
        pytest.param(
            empty,
            "no examples in this folder of the data set\n  where:   {folder}\n  key:     data_dir",
            id="no shards",
        ),
    ],
)
def test_what_cannot_be_used_is_named(folder: Path, damage: Callable[[Path], None], message: str) -> None:
    path = folder / "part_00002_of_00003.hdf5"
    damage(path)
    with pytest.raises(ConfigError) as caught:
        ShardedExamples(str(folder))
    assert str(caught.value).startswith(message.format(path=path, folder=folder))
