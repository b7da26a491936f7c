"""The files of a folder: one model.safetensors, or several with an index beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flagperf.errors import ConfigError
from flagperf.trainer.pytorch.hugging_face.sources import Places, Source

SINGLE, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
KEY = "init_checkpoint"


class Stored(Source):
    """A tensor of an open .safetensors file."""

    def __init__(self, file: Any, name: str) -> None:
        tensor = file.get_slice(name)
        self.file, self.name, self.shape = file, name, tuple(tensor.get_shape())
        self.dtype = TYPES.get(str(tensor.get_dtype()), torch.uint8)

    def __getitem__(self, places: Places) -> Tensor:
        if not self.shape:
            return self.file.get_tensor(self.name)  # type: ignore[no-any-return]
        if any(piece.start >= piece.stop for piece in places):
            return torch.empty([max(piece.stop - piece.start, 0) for piece in places], dtype=self.dtype)
        return self.file.get_slice(self.name)[places]  # type: ignore[no-any-return]


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """The tensors of a folder by their names. The files stay open; their pages are read when they are needed.

    Raises:
        ConfigError: the folder holds no such weights, or a file of them is missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, Stored] = {}
    for path in _files(folder):
        try:
            file: Any = safe_open(str(path), framework="pt", device="cpu")
            tensors.update((name, Stored(file, name)) for name in file.keys())  # noqa: SIM118  # it is no mapping
        except (SafetensorError, OSError) as error:
            raise ConfigError(
                "cannot read the weights",
                where=str(path),
                key=KEY,
                given=f"a file that is damaged or has another format ({type(error).__name__})",
                allowed="a .safetensors file",
            ) from error
    return tensors


def _files(folder: Path) -> list[Path]:
    names = _indexed(folder / INDEX) if (folder / INDEX).is_file() else [SINGLE]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing == [SINGLE] and not (folder / INDEX).is_file():
        raise ConfigError(
            "the folder holds no weights of Hugging Face",
            where=str(folder),
            key=KEY,
            allowed=f"a folder with {SINGLE}, or with {INDEX} and the files that it names",
            advice="save_pretrained of transformers writes such a folder, also from .bin files",
        )
    if missing:
        given = f"missing: {', '.join(missing[:5])}"
        advice = "copy the whole folder; each node reads it from its own disk"
        raise ConfigError("a file of the weights is missing", where=str(folder), key=KEY, given=given, advice=advice)
    return [folder / name for name in names]


def _indexed(path: Path) -> list[str]:
    """The files that an index names: file names in its own folder."""
    try:
        names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
        if any(Path(name).name != name for name in names):
            raise ValueError("a path")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            "this is no index of weights",
            where=str(path),
            key=KEY,
            given=f"{type(error).__name__}: {error}",
            allowed='{"weight_map": {name of a tensor: name of a file beside the index}}',
        ) from error
    return names
