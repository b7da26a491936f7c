"""The numbers of a step on their way to the host, summed over the ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from flagperf.trainer.loop.records import Sums
from flagperf.trainer.pytorch.ranks import World


def send(world: World, device: torch.device, units: int, losses: list[Tensor], extra: list[Tensor]) -> Sums:
    """Send a step's numbers to the host, without waiting for a device: units, the mean loss and the others."""
    loss = losses[0] if len(losses) == 1 else torch.stack(losses).mean()
    numbers = [loss, *extra]
    if device.type == "cpu":
        values = [float(units), *(number.item() for number in numbers)]
        return (lambda: values) if world.size == 1 else world.sum(torch.tensor(values, dtype=torch.float64)).tolist
    summed = torch.stack([torch.full_like(numbers[0], units, dtype=torch.float32), *(n.float() for n in numbers)])
    world.sum(summed)
    return torch.empty(summed.shape, pin_memory=True).copy_(summed, non_blocking=True).tolist
