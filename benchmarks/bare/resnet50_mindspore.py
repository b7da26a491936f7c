"""The baseline: resnet50 (tiny) on MindSpore as somebody would write it by hand, with the network of the case.

    python benchmarks/bare/resnet50_mindspore.py DATA_DIR BATCH_SIZE STEPS WARMUP_STEPS

Starts itself once for each of two ranks, and once as MindSpore's scheduler. Prints one JSON line: wall clock at the end
of the first step, images per second of the whole job after the warm-up steps, and the resident memory of rank 0 at the
peak.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

WORLD, PORT = 2, 29531
SIDE, CLASSES = 8, 10
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
LR = 0.05


def main(data_dir: str, batch_size: int, steps: int, warmup_steps: int) -> None:
    import mindspore
    import mindspore.dataset as ds
    from mindspore import Tensor, communication, nn, ops
    from mindspore.dataset import vision

    from cases.image_classification.mindspore.network import ResNet

    mindspore.set_device("CPU")
    mindspore.set_deterministic(True)  # as the case demands
    mindspore.runtime.dispatch_threads_num(int(os.environ["OMP_NUM_THREADS"]))
    communication.init("mccl")
    if os.environ["MS_ROLE"] == "MS_SCHED":
        return
    rank = communication.get_rank()
    mindspore.set_seed(0)
    network = ResNet([1, 1], CLASSES, SIDE, width_per_group=32)
    network.set_train(True)
    optimizer = nn.SGD([{"params": network.trainable_params()}], LR, 0.9, weight_decay=1e-4)
    reducer = nn.DistributedGradReducer(optimizer.parameters, mean=True, degree=WORLD)

    images = ds.ImageFolderDataset(
        str(Path(data_dir, "train")), num_parallel_workers=1, shuffle=True, num_shards=WORLD, shard_id=rank
    )
    cut = [vision.RandomCropDecodeResize(SIDE, scale=(0.6, 1.0)), vision.HWC2CHW()]
    images = images.map(cut, "image", num_parallel_workers=1)
    images = images.batch(batch_size, drop_remainder=True).repeat()
    batches = images.create_tuple_iterator()
    mean, std = (Tensor(of_channel, mindspore.float32).reshape(1, 3, 1, 1) for of_channel in (MEAN, STD))

    def forward(images: Tensor, labels: Tensor) -> Tensor:
        scores = network((images.astype(mindspore.float32) / 255 - mean) / std)
        return ops.cross_entropy(scores, labels)

    gradients = mindspore.value_and_grad(forward, None, optimizer.parameters)
    first_step, started = 0.0, 0.0
    for step in range(1, steps + 1):
        pixels, labels = next(batches)
        loss, gradient_values = gradients(pixels, labels.astype(mindspore.int32))
        optimizer(reducer(gradient_values))
        if step % 5 == 0 and rank == 0:
            print(step, float(loss), flush=True)
        if step == 1:
            float(loss)
            first_step = time.time()
        if step == warmup_steps:
            started = time.perf_counter()
    float(loss)
    seconds = time.perf_counter() - started
    if rank == 0:
        rate = (steps - warmup_steps) * batch_size * WORLD / seconds
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        checksum = float(sum(parameter.sum() for parameter in network.trainable_params()))
        figures = {"first_step": first_step, "units_per_second": rate, "memory_gib": memory, "checksum": checksum}
        print(json.dumps(figures), flush=True)


def start() -> None:
    """Start this script once for each rank and for the scheduler, as MindSpore's guide of dynamic clusters does."""
    cluster = {
        "MS_WORKER_NUM": str(WORLD),
        "MS_SCHED_HOST": "127.0.0.1",
        "MS_SCHED_PORT": str(PORT),
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // WORLD)),
        "GLOG_v": "3",
    }
    roles = ["MS_SCHED", *["MS_WORKER"] * WORLD]
    processes = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env={**os.environ, **cluster, "MS_ROLE": role, **({"MS_NODE_ID": str(number - 1)} if number else {})},
        )
        for number, role in enumerate(roles)
    ]
    sys.exit(max(process.wait() for process in processes))


if __name__ == "__main__":
    if "MS_ROLE" not in os.environ:
        start()
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
