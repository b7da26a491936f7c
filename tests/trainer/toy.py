"""A case small enough to compute by hand: a linear network on points in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from flagperf.trainer.task import Task

Batch = tuple[Tensor, Tensor]


class Points(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Points and labels; `noise` adds what random augmentation would."""

    def __init__(
        self, count: int, features: int = 8, seed: int = 7, noise: float = 0.0, nan_at: int | None = None
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(count, features, generator=generator)
        self.labels = (self.inputs.sum(dim=1) > 0).long()
        self.noise = noise
        if nan_at is not None:
            self.inputs[nan_at] = float("nan")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index] + self.noise * torch.randn(self.inputs.shape[1]), self.labels[index]


def network(features: int = 8, dropout: float = 0.0) -> nn.Module:
    """Two layers."""
    return nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))


class Classification(Task):
    """Cross-entropy; accuracy, and how often each sample was evaluated."""

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(network(inputs), labels)

    def samples(self, batch: Batch) -> int:
        return len(batch[1])

    def units(self, batch: Batch) -> int:
        return batch[0].numel()

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, Any]:
        sums = torch.zeros(2, device=device)
        for inputs, labels in batches:
            sums += torch.tensor([(network(inputs).argmax(1) == labels).sum(), len(labels)])
        if distributed.is_initialized():
            distributed.all_reduce(sums)
        return {"accuracy": (sums[0] / sums[1]).item(), "evaluated": sums[1].item()}
