"""The baseline of step_cost.py: its training as somebody would write it by hand for torchrun, with nothing of flagperf.

Its steps are made one at a time, so that both trainings run in turns in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from torch import distributed, optim
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

sys.path.insert(0, str(Path(__file__).parent.parent))
from mlp import BATCH_SIZE, Points, network


def steps() -> Iterator[int]:
    """The number of each step, after the step. It has no end."""
    world, rank = (distributed.get_world_size(), distributed.get_rank()) if distributed.is_initialized() else (1, 0)
    points = Points()
    sampler = DistributedSampler(points, world, rank, drop_last=True)
    loader = DataLoader(points, BATCH_SIZE, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(network()) if world > 1 else network()
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    step, epoch = 0, 0
    while True:
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                print(step, loss.item())
            yield step
        epoch += 1
