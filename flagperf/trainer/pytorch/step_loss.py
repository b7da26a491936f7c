"""The loss of a step, in every split of its samples over ranks and micro steps.

A task gives means over a batch. Where batches have different numbers of what is averaged, such as predicted tokens, the
mean of these means depends on the split. Such a task also gives these numbers, its weights. The means of a batch then
count by the share of the batch in the weight of the whole step: the sum over all samples, divided by the whole weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Tuple

import torch
from torch import Tensor, nn

from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task

Given = Tuple[Any, ...]  # arguments of `StepLoss.of` behind the network: a batch, and its share where it has one


class StepLoss:
    """The loss of each micro batch, whose mean over micro steps and ranks is the loss of the step.

    Attributes:
        of: network, batch and perhaps its share → the loss, a scalar.
        by_shares: whether batches have shares. One batch is a whole step where a rank is alone and makes one micro
            step; else a task with weights needs all batches of a step before the first loss.
    """

    of: Callable[..., Tensor]

    def __init__(self, task: Task, world: World, micro_steps: int) -> None:
        self.task, self.world = task, world
        self.by_shares = task.weighted and world.size * micro_steps > 1
        self.of = self._by_share if self.by_shares else task.loss

    def given(self, batches: Sequence[Any]) -> list[Given]:
        """The batches of this rank in a step, each with its share where it has one. All ranks call this together.

        The share of a batch is its weight over the mean weight of all batches of the step. Ranks that compute on the
        same batch count it equally often, so they do not change the mean. Nothing waits for a device.
        """
        if not self.by_shares:
            return [(batch,) for batch in batches]
        weights = torch.stack([self.task.weight(batch).float() for batch in batches])
        mean = self.world.sum(weights.sum(0)) / (self.world.size * len(batches))
        return list(zip(batches, weights / mean.clamp(min=torch.finfo(mean.dtype).tiny)))

    def _by_share(self, network: nn.Module, batch: Any, share: Tensor) -> Tensor:
        return (self.task.terms(network, batch) * share).sum()
