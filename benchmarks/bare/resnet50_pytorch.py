"""The baseline: resnet50 (tiny) as somebody would write it by hand for torchrun, with nothing of flagperf.

    torchrun --nproc-per-node 2 benchmarks/bare/resnet50_pytorch.py DATA_DIR BATCH_SIZE STEPS WARMUP_STEPS

Prints one JSON line: wall clock at the end of the first step, images per second of the whole job after the warm-up
steps, and the largest resident memory of a rank.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_image
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import normalize, to_dtype

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def main(data_dir: str, batch_size: int, steps: int, warmup_steps: int) -> None:
    distributed.init_process_group("gloo")
    world = distributed.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)  # as the case demands
    torch.utils.deterministic.fill_uninitialized_memory = False
    transform = v2.Compose([v2.RandomResizedCrop(32, scale=(0.6, 1.0)), v2.RandomHorizontalFlip(0.0)])
    images = ImageFolder(
        str(Path(data_dir, "train")), transform, loader=lambda path: decode_image(path, ImageReadMode.RGB)
    )
    sampler = DistributedSampler(images, drop_last=True)
    loader = DataLoader(images, batch_size, sampler=sampler, num_workers=1, persistent_workers=True, drop_last=True)
    network = DistributedDataParallel(ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, width_per_group=32))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loss_of = nn.CrossEntropyLoss()

    step, first_step, started = 0, 0.0, 0.0
    while step < steps:
        sampler.set_epoch(step)
        for pixels, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(network(normalize(to_dtype(pixels, torch.float32, scale=True), MEAN, STD)), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0 and distributed.get_rank() == 0:
                print(step, loss.item(), flush=True)
            if step == 1:
                first_step = time.time()
            if step == warmup_steps:
                started = time.perf_counter()
            if step == steps:
                break
    seconds = time.perf_counter() - started
    if distributed.get_rank() == 0:
        rate = (steps - warmup_steps) * batch_size * world / seconds
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"first_step": first_step, "units_per_second": rate, "memory_gib": memory}), flush=True)
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads now and then abort the interpreter's own exit


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
