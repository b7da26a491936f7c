"""A network so small that a step is mostly overhead: what both sides of step_cost.py train, and how they are timed."""

from __future__ import annotations

import json
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from flagperf.trainer.pytorch.task import Task

WIDTH, BATCH_SIZE = 64, 32
FIRST_STEP, LAST_STEP = 500, 3500  # timed between the forward passes of these


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


class StepTimer:
    """CPU and wall seconds per step of this process, taken at each forward pass, printed as one JSON line."""

    def __init__(self) -> None:
        self.step = 0

    def tick(self) -> None:
        self.step += 1
        if self.step == FIRST_STEP:
            self.cpu, self.wall = time.process_time(), time.perf_counter()
        elif self.step == LAST_STEP:
            steps = LAST_STEP - FIRST_STEP
            figures = {
                "cpu": (time.process_time() - self.cpu) / steps,
                "wall": (time.perf_counter() - self.wall) / steps,
            }
            print(json.dumps(figures), flush=True)


class Classification(Task):
    """Cross-entropy."""

    def __init__(self) -> None:
        self.timer = StepTimer()

    def loss(self, network: nn.Module, batch: Any) -> Tensor:
        self.timer.tick()
        inputs, labels = batch
        return functional.cross_entropy(network(inputs), labels)

    def samples(self, batch: Any) -> int:
        return len(batch[1])
