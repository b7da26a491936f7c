"""A rank's training batches, shuffled by PyTorch's generator."""

from __future__ import annotations

import torch
from torch.utils.data import Sampler

from flagperf.trainer.data.batches import EndlessBatches, Numbered


class TrainBatches(EndlessBatches, Sampler[Numbered]):
    """This rank's batches without end."""

    def generator(self, seed: int) -> torch.Generator:
        """PyTorch's generator for a seed."""
        return torch.Generator().manual_seed(seed)

    def permutation(self, count: int, generator: torch.Generator) -> list[int]:
        """The numbers below `count` in random order."""
        numbers: list[int] = torch.randperm(count, generator=generator).tolist()
        return numbers
