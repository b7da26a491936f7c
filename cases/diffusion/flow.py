"""Rectified flow (arXiv:2209.03003): the network learns the velocity of the straight path from an image to noise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Dict

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from typing_extensions import override

from flagperf.trainer.pytorch.task import Task

TIMES = 8  # of an evaluation: 0, 1/8 … 7/8, as in MLPerf's flux1
Batch = Dict[str, Tensor]  # with noise like the images, and a time for each image: 0 is the image, 1 the noise


class Flow(Task):
    """What images from classes and images from texts have in common."""

    metrics = ("eval_loss",)

    def images(self, batch: Batch) -> Tensor:
        """The images without noise, float32 [samples, channels, height, width]."""
        raise NotImplementedError

    def velocity(self, network: nn.Module, noised: Tensor, times: Tensor, batch: Batch) -> Tensor:
        """The network's velocity for noised images, of their shape."""
        raise NotImplementedError

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """The mean squared error of the velocity."""
        return self.errors(network, batch).mean()

    @override
    def samples(self, batch: Batch) -> int:
        return len(batch["time"])

    @override
    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """`eval_loss`: mean squared error of the velocity, at the time of each image."""
        sums = torch.zeros(2, dtype=torch.float64, device=device)
        for batch in batches:
            sums += self.error_sums(network, batch)
        self.add_up(sums)
        return {"eval_loss": mean_error(sums)}

    def errors(self, network: nn.Module, batch: Batch) -> Tensor:
        """The mean squared error of each image."""
        images, noise, times = self.images(batch), batch["noise"], batch["time"]
        noised = torch.lerp(images, noise, times[:, None, None, None])
        velocity = self.velocity(network, noised, times, batch).float()
        return functional.mse_loss(velocity, noise - images, reduction="none").flatten(1).mean(1)

    def error_sums(self, network: nn.Module, batch: Batch) -> Tensor:
        """Sum of the errors, and number of images."""
        each = self.errors(network, batch).double()
        return torch.stack([each.sum(), torch.tensor(len(each), dtype=each.dtype, device=each.device)])

    def add_up(self, *sums: Tensor) -> None:
        """Add the sums of all ranks, in place."""
        if distributed.is_initialized():
            for each in sums:
                distributed.all_reduce(each, group=self.group)


def generator_of(index: int, fixed: bool) -> torch.Generator | None:
    """Draws the noise of a sample: the same in each epoch if fixed, as for an evaluation."""
    return torch.Generator().manual_seed(index) if fixed else None


def mean_error(sums: Tensor) -> float:
    """The mean from `error_sums`."""
    total, count = sums.tolist()
    return round(float(total / count), 6)
