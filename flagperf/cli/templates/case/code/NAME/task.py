"""The task: loss and metric. docs/adding-a-case.md of flagperf describes all methods of a task."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from flagperf.trainer.pytorch.task import Task

Batch = list[Tensor]  # points [n, 2], classes [n]


class Classification(Task):
    """Cross-entropy of two classes; `acc`, the share of right answers in percent."""

    metrics = ("acc",)

    def loss(self, network: nn.Module, batch: Batch) -> Tensor:
        """The mean over the batch."""
        points, classes = batch
        return functional.cross_entropy(network(points), classes)

    def samples(self, batch: Batch) -> int:
        """Points of the batch."""
        return len(batch[1])

    def example(self, config: Mapping[str, Any]) -> Batch:  # noqa: ARG002
        """One point: the operations of its forward pass identify the network."""
        return [torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)]

    def evaluate(self, network: nn.Module, batches: Iterable[Batch], device: torch.device) -> dict[str, float]:
        """The metric over all ranks of the group."""
        counts = torch.zeros(2, device=device)  # right answers, points
        for points, classes in batches:
            counts += torch.stack([(network(points).argmax(1) == classes).sum(), classes.new_tensor(len(classes))])
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(counts, group=self.group)
        right, points = counts.tolist()
        return {"acc": 100 * right / points}
