"""Embeddings of texts and latents of images, as MLPerf publishes them for flux1.

A folder is a data set of Hugging Face's package `datasets`: files of Arrow's stream format, with a row for each pair.
The columns t5_encodings, clip_encodings, mean and logvar hold NumPy files of uint16, the bits of bfloat16. Data for an
evaluation have a column timestep too, from 0 to 7.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pyarrow
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cases.diffusion.flow import TIMES, generator_of
from flagperf.errors import ConfigError

COLUMNS = ("t5_encodings", "clip_encodings", "mean", "logvar")
ADVICE = "download the file again; `flagperf data check` reads every file"


class Embedded(Dataset[Dict[str, Tensor]]):
    """Pairs of a text and an image, with noise and a time.

    Args:
        folder: with files *.arrow.
        empty: the folder with the embeddings of an empty text; not read without `drop`.
        shift, scale: of the latents; the network sees (latent - shift) * scale.
        drop: probability that an empty text replaces a text.
        fixed: each pair has the same noise in each epoch, and the time of its column timestep, for an evaluation.
    """

    def __init__(
        self, folder: str, empty: str, shift: float, scale: float, drop: float = 0.0, fixed: bool = False
    ) -> None:
        self.files = sorted(Path(folder).glob("**/*.arrow"))
        self.shift, self.scale, self.drop, self.fixed = shift, scale, drop, fixed
        self.columns = (*COLUMNS, "timestep") if fixed else COLUMNS
        self.empty = _empty(Path(empty)) if drop else None
        self.ends = list(accumulate(_table(path, self.columns).num_rows for path in self.files))
        self.tables: dict[int, Any] = {}  # of this process: files that it has opened

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "tables": {}}

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        row = self.row(index)
        text, pooled, mean, logvar = (row[name] for name in COLUMNS)
        generator = generator_of(index, self.fixed)
        latent = mean.float() + (logvar.float() / 2).exp() * torch.randn(mean.shape, generator=generator)
        noise = torch.randn(mean.shape, generator=generator)
        time = torch.tensor(row["timestep"] / TIMES) if self.fixed else torch.rand(())
        if self.empty is not None and torch.rand(()) < self.drop:
            text, pooled = self.empty
        return {
            "latent": (latent - self.shift) * self.scale,
            "text": text,
            "pooled": pooled,
            "noise": noise,
            "time": time,
        }

    def check(self) -> None:
        """Read the first and the last row of each file."""
        for start, end in zip([0, *self.ends], self.ends):
            for index in {start, end - 1}:
                self.row(index)

    def row(self, index: int) -> dict[str, Any]:
        """The tensors of a pair, and its timestep."""
        file = bisect_right(self.ends, index)
        path = self.files[file]
        if file not in self.tables:
            self.tables[file] = _table(path, self.columns)
        place = index - (self.ends[file - 1] if file else 0)
        cells = {name: self.tables[file][name][place] for name in self.columns}
        try:
            row: dict[str, Any] = {name: _tensor(cells[name].as_py()) for name in COLUMNS}
        except (ValueError, TypeError, EOFError) as error:
            raise ConfigError(
                "a row holds no tensor", where=str(path), given=f"row {place}: {error}", advice=ADVICE
            ) from None
        if self.fixed:
            row["timestep"] = cells["timestep"].as_py()
            if row["timestep"] not in range(TIMES):
                raise ConfigError(
                    "a row has no time",
                    where=str(path),
                    key="timestep",
                    given=f"row {place}: {row['timestep']}",
                    allowed=f"0 to {TIMES - 1}",
                )
        return row


def _table(path: Path, columns: tuple[str, ...]) -> Any:
    """A file whose rows stay on the disk. The map outlives the open file: there may be thousands of them."""
    try:
        with pyarrow.memory_map(str(path)) as file:
            table = pyarrow.ipc.open_stream(file).read_all()
    except (pyarrow.ArrowException, OSError) as error:
        raise ConfigError("cannot read the Arrow file", where=str(path), given=error, advice=ADVICE) from None
    if missing := [name for name in columns if name not in table.column_names]:
        raise ConfigError(
            "the Arrow file lacks some of its columns",
            where=str(path),
            given=", ".join(table.column_names),
            allowed=", ".join(columns),
            advice=f"missing: {', '.join(missing)}",
        )
    return table


def _tensor(content: bytes) -> Tensor:
    """A NumPy file of uint16 as bfloat16."""
    return torch.from_numpy(np.load(io.BytesIO(content)).view(np.int16)).view(torch.bfloat16)


def _empty(folder: Path) -> tuple[Tensor, Tensor]:
    """The embeddings of an empty text, without the dimension of the batch."""
    try:
        text, pooled = (torch.from_numpy(np.load(folder / f"{name}_empty.npy"))[0] for name in ("t5", "clip"))
    except (OSError, ValueError, EOFError, IndexError) as error:
        raise ConfigError(
            "cannot read the embeddings of an empty text",
            where=str(folder),
            key="empty_path",
            given=error,
            allowed="a folder with t5_empty.npy and clip_empty.npy",
        ) from None
    return text.bfloat16(), pooled.bfloat16()
