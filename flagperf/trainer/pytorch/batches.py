"""A rank's training batches, in an order that PyTorch's generator draws."""

from __future__ import annotations

import torch
from torch.utils.data import Sampler

from flagperf.trainer.data.batches import EndlessBatches, Numbered


class TrainBatches(EndlessBatches, Sampler[Numbered]):
    """This rank's batches without end."""

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    def permutation(self, count: int, generator: torch.Generator) -> list[int]:
        numbers: list[int] = torch.randperm(count, generator=generator).tolist()
        return numbers
