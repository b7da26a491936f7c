"""Reads the data: one point per line, as x, y, class."""

import csv
from pathlib import Path

import torch
from torch import Tensor

from flagperf.errors import ConfigError


class Points(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """A data set of (point [2], class []) pairs."""

    def __init__(self, path: str) -> None:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        try:
            self.points = torch.tensor([[float(x), float(y)] for x, y, _ in rows])
            self.labels = torch.tensor([int(label) for _, _, label in rows])
        except ValueError as error:
            raise ConfigError(f"not a line of x, y, class: {error}", where=path, advice="correct the line") from error

    def __len__(self) -> int:
        """Number of points."""
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """One point and its class."""
        return self.points[index], self.labels[index]
