"""A network so small that a step is mostly overhead: what both sides of step_cost.py train."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from flagperf.trainer.pytorch.task import Task

WIDTH, BATCH_SIZE = 64, 32


class Points(Dataset[tuple[Tensor, Tensor]]):
    """Points and labels in memory."""

    def __init__(self, count: int = 4096) -> None:
        self.inputs = torch.randn(count, WIDTH)
        self.labels = torch.randint(WIDTH, (count,))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.labels[index]


def network() -> nn.Module:
    """Two layers of 64 x 64."""
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


class Classification(Task):
    """Cross-entropy."""

    def loss(self, network: nn.Module, batch: Any) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(network(inputs), labels)

    def samples(self, batch: Any) -> int:
        return len(batch[1])
