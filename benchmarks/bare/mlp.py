"""The baseline of step_cost.py: its training as somebody would write it by hand for torchrun, with nothing of flagperf.

    torchrun --nproc-per-node 1 benchmarks/bare/mlp.py

Prints CPU and wall seconds per step.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

sys.path.insert(0, str(Path(__file__).parent.parent))
from mlp import BATCH_SIZE, LAST_STEP, Points, StepTimer, network


def main() -> None:
    world = int(os.environ["WORLD_SIZE"])
    if world > 1:
        distributed.init_process_group("gloo")
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    points = Points()
    sampler = DistributedSampler(points, world, int(os.environ["RANK"]), drop_last=True)
    loader = DataLoader(points, BATCH_SIZE, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(network()) if world > 1 else network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    timer, step, epoch = StepTimer(), 0, 0
    while step < LAST_STEP:
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            timer.tick()
            loss = functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                print(step, loss.item())
        epoch += 1
    sys.stdout.flush()
    os._exit(0)  # gloo's threads now and then abort the interpreter's own exit


if __name__ == "__main__":
    main()
