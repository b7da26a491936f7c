"""A small network on PyTorch whose steps mostly wait, as for a device: on one rank longer than on the others."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from flagperf.trainer.pytorch.task import Task

WIDTH, COUNT = 8, 4096


class Points(Dataset[Tensor]):
    """Random points in memory."""

    def __init__(self) -> None:
        self.points = torch.randn(COUNT, WIDTH, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Tensor:
        return self.points[index]


class Slow(Task):
    """Each step waits.

    Args:
        seconds: of the wait.
        share: by which the wait of the slow rank is longer.
        rank: the slow rank; -1: none.
        after: the last step in which the rank is not slow.
        once: seconds of one more wait of the slow rank, in the step `after`.
    """

    def __init__(self, seconds: float, share: float, rank: int, after: int, once: float) -> None:
        super().__init__()
        self.seconds, self.share, self.after, self.once = seconds, share, after, once
        self.slow = rank == int(os.environ["RANK"])
        self.step = 0

    def loss(self, network: nn.Module, batch: Any) -> Tensor:
        """The wait is a part of the forward pass."""
        self.step += 1
        seconds = self.seconds
        if self.slow and self.step == self.after:
            seconds += self.once
        if self.slow and self.step > self.after:
            seconds *= 1 + self.share
        time.sleep(seconds)
        loss: Tensor = (network(batch) - 1).square().mean()
        return loss

    def samples(self, batch: Any) -> int:
        return len(batch)
