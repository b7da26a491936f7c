"""Sample data of the case flux1: handwritten digits as latents, and random vectors as embeddings of their names."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray
from sklearn.datasets import load_digits

VALUE = {"dtype": "binary", "_type": "Value"}
FEATURES = {
    "__key__": {"dtype": "string", "_type": "Value"},
    **dict.fromkeys(("t5_encodings", "clip_encodings", "mean", "logvar"), VALUE),
    "timestep": {"dtype": "int32", "_type": "Value"},
}
SCHEMA = pyarrow.schema(
    [("__key__", pyarrow.string())]
    + [(name, pyarrow.binary()) for name in FEATURES if FEATURES[name] is VALUE]
    + [("timestep", pyarrow.int32())]
)
LOG_VARIANCE = -4.0  # of the latents


def write_digits(
    folder: str | Path,
    train_path: str,
    eval_path: str,
    empty_path: str,
    tokens: int,
    text_width: int,
    pooled_width: int,
    channels: int,
    size: int,
    shift: float,
    scale: float,
    most: int | None = None,
) -> None:
    """Write pairs of scikit-learn's digits and their names, in two files for each split; every fifth to the evaluation.

    Args:
        tokens, text_width, pooled_width: shapes of the embeddings.
        channels, size: of the latents. Channels show the digit alternately bright and dark.
        shift, scale: of the case, which makes the digits' values from -1 to 1 of the latents.
        most: number of digits; None: all 1797.
    """
    random = np.random.default_rng(0)
    texts = random.standard_normal((11, tokens, text_width), dtype=np.float32)  # the last one is empty
    pooled = random.standard_normal((11, pooled_width), dtype=np.float32)
    digits = load_digits()
    repeats = -(-size // 8)
    signs = np.where(np.arange(channels) % 2, -1, 1)[:, None, None]
    rows: dict[str, list[dict[str, Any]]] = {train_path: [], eval_path: []}
    for index, (image, label) in enumerate(zip(digits.images[:most], digits.target)):
        split = eval_path if index % 5 == 0 else train_path
        large = (image / 8 - 1).repeat(repeats, 0).repeat(repeats, 1)[:size, :size]
        row = {
            "__key__": f"{index:09d}",
            "t5_encodings": _content(texts[label]),
            "clip_encodings": _content(pooled[label]),
            "mean": _content(large * signs / scale + shift),
            "logvar": _content(np.full((channels, size, size), LOG_VARIANCE)),
            "timestep": len(rows[split]) % 8 if split == eval_path else None,
        }
        rows[split].append(row)
    for split, pairs in rows.items():
        _write(Path(folder, split), pairs)
    empty = Path(folder, empty_path)
    empty.mkdir(parents=True, exist_ok=True)
    np.save(empty / "t5_empty.npy", texts[-1:].astype(np.float16))
    np.save(empty / "clip_empty.npy", pooled[-1:].astype(np.float16))


def _content(values: NDArray[Any]) -> bytes:
    """The NumPy file of the upper halves of float32, which are bfloat16."""
    buffer = io.BytesIO()
    np.save(buffer, (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16))
    return buffer.getvalue()


def _write(folder: Path, rows: list[dict[str, Any]]) -> None:
    """The files of `datasets.Dataset.save_to_disk`."""
    folder.mkdir(parents=True, exist_ok=True)
    half = len(rows) // 2
    names = [f"data-{number:05d}-of-00002.arrow" for number in range(2)]
    for name, part in zip(names, (rows[:half], rows[half:])):
        with pyarrow.OSFile(str(folder / name), "wb") as file, pyarrow.ipc.new_stream(file, SCHEMA) as stream:
            for batch in pyarrow.Table.from_pylist(part, schema=SCHEMA).to_batches(max_chunksize=100):
                stream.write_batch(batch)
    state = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": folder.name,
        "_split": None,
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
    }
    (folder / "state.json").write_text(json.dumps(state, indent=2))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}, indent=2))
