"""One shard: an HDF5 file of BERT's pre-training examples, as MLPerf's scripts make it; a row is an example.

input_ids             [examples, length]       tokens: [CLS] first text [SEP] second text [SEP], then zeros
input_mask            [examples, length]       1 where a token is
segment_ids           [examples, length]       1 in the second text and its [SEP]
masked_lm_positions   [examples, predictions]  places to predict, growing, then zeros
masked_lm_ids         [examples, predictions]  the tokens that belong there
next_sentence_labels  [examples]               1 where the second text does not follow the first
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from cases.bert.examples import Example
from cases.hdf5 import open_hdf5

KEYS = {  # and their types in the files
    "input_ids": "i4",
    "input_mask": "i1",
    "segment_ids": "i1",
    "masked_lm_positions": "i4",
    "masked_lm_ids": "i4",
    "next_sentence_labels": "i1",
}
ROWS = 4096  # examples written at once
ADVICE = "prepare the data set again"


def count_examples(path: Path) -> int:
    """How many examples a shard holds."""
    with open_hdf5(path, KEYS, ADVICE) as file:
        return int(file["input_ids"].shape[0])


def open_arrays(path: Path) -> dict[str, Any]:
    """The arrays of a shard, by name. Rows of an uncompressed one come from memory that is mapped to the file.

    HDF5 needs 2 ms for the six parts of an example, where mapped memory needs a few microseconds.
    """
    file = open_hdf5(path, KEYS, ADVICE)
    return {key: _mapped(path, file[key]) for key in KEYS}


def _mapped(path: Path, array: Any) -> Any:
    """The array as mapped memory, or as HDF5 reads it where it is compressed or in chunks."""
    offset = array.id.get_offset()
    return array if offset is None else np.memmap(path, array.dtype, "r", offset, array.shape)


def write_shard(path: Path, examples: Sequence[Example], length: int, predictions: int) -> None:
    """Write one shard, uncompressed.

    Args:
        length: places of a row.
        predictions: masked places of a row.
    """
    widths = {"masked_lm_positions": (predictions,), "masked_lm_ids": (predictions,), "next_sentence_labels": ()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for key, kind in KEYS.items():
            file.create_dataset(key, (len(examples), *widths.get(key, (length,))), dtype=kind)
        for start in range(0, len(examples), ROWS):
            rows = examples[start : start + ROWS]
            for key, values in _arrays(rows, length, predictions).items():
                file[key][start : start + len(rows)] = values


def _arrays(examples: Sequence[Example], length: int, predictions: int) -> dict[str, NDArray[np.int32]]:
    shapes = {**dict.fromkeys(KEYS, length), "masked_lm_positions": predictions, "masked_lm_ids": predictions}
    arrays = {key: np.zeros((len(examples), width), dtype=np.int32) for key, width in shapes.items()}
    for row, example in enumerate(examples):
        arrays["input_ids"][row, : len(example.tokens)] = example.tokens
        arrays["input_mask"][row, : len(example.tokens)] = 1
        arrays["segment_ids"][row, example.second : len(example.tokens)] = 1
        arrays["masked_lm_positions"][row, : len(example.places)] = example.places
        arrays["masked_lm_ids"][row, : len(example.words)] = example.words
    not_next = np.array([example.not_next for example in examples], dtype=np.int32)
    return {**arrays, "next_sentence_labels": not_next}
