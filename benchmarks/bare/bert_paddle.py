"""The baseline: bert (tiny) on PaddlePaddle as somebody would write it by hand, with the network of the case.

    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo benchmarks/bare/bert_paddle.py \
        DATA_DIR BATCH_SIZE STEPS WARMUP_STEPS

Prints one JSON line: wall clock at the end of the first step, sequences per second of the whole job after the warm-up
steps, and the resident memory of rank 0 at the peak.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import paddle
from paddle.io import DataLoader, Dataset, DistributedBatchSampler
from paddle.nn import functional

from cases.bert.paddle.network import BertForMaskedPlaces, Config

KEYS = ("input_ids", "segment_ids", "input_mask", "masked_lm_positions", "masked_lm_ids", "next_sentence_labels")
TINY = Config(24, 64, 2, 2, 128, 32, 0.0, 0.0, 0.08)
LR, WARMUP, DECAY = 0.003, 40, 400


class Examples(Dataset):
    """All shards in memory: they are small."""

    def __init__(self, folder: Path) -> None:
        files = [h5py.File(path, "r") for path in sorted(folder.glob("part*"))]
        self.columns = [np.concatenate([file[key][:] for file in files]).astype(np.int64) for key in KEYS]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        tokens, segments, mask, places, words, follows = (column[index] for column in self.columns)
        return tokens, segments, mask, places, np.where(places == 0, -100, words), follows


def main(data_dir: str, batch_size: int, steps: int, warmup_steps: int) -> None:
    paddle.set_device("cpu")
    examples = Examples(Path(data_dir, "2048_shards_uncompressed"))
    paddle.distributed.init_parallel_env()
    world, rank = paddle.distributed.get_world_size(), paddle.distributed.get_rank()
    paddle.seed(42)
    network = BertForMaskedPlaces(TINY)
    matrices = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in network.parameters() if parameter.ndim == 1]
    schedule = paddle.optimizer.lr.LambdaDecay(
        LR, lambda done: (done + 1) / WARMUP if done + 1 < WARMUP else max(0.0, 1 - (done + 1) / DECAY)
    )
    optimizer = paddle.optimizer.AdamW(
        schedule,
        epsilon=1e-6,
        parameters=[{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}],
        grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0),
    )
    model = paddle.DataParallel(network)
    sampler = DistributedBatchSampler(examples, batch_size, shuffle=True, drop_last=True)
    loader = DataLoader(examples, batch_sampler=sampler, num_workers=1, persistent_workers=True)

    step, first_step, started = 0, 0.0, 0.0
    while step < steps:
        for tokens, segments, mask, places, words, follows in loader:
            scores, pairs = model(tokens, segments, mask, places)
            labels = words.flatten()
            loss = functional.cross_entropy(scores, labels, ignore_index=-100, reduction="sum")
            loss = loss / (labels != -100).astype("float32").sum() + functional.cross_entropy(pairs, follows)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            schedule.step()
            step += 1
            if step % 10 == 0 and rank == 0:
                print(step, float(loss), flush=True)
            if step == 1:
                float(loss)
                first_step = time.time()
            if step == warmup_steps:
                started = time.perf_counter()
            if step == steps:
                break
    seconds = time.perf_counter() - started
    if rank == 0:
        rate = (steps - warmup_steps) * batch_size * world / seconds
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"first_step": first_step, "units_per_second": rate, "memory_gib": memory}), flush=True)
    sys.stdout.flush()
    for loading in multiprocessing.active_children():
        loading.kill()  # they outlive Paddle's own exit
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
