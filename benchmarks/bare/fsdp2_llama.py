"""The baseline of FSDP2: llama3_8b (tiny) as somebody would write it by hand for torchrun, with nothing of flagperf.

    torchrun --nproc-per-node 2 benchmarks/bare/fsdp2_llama.py DATA_DIR BATCH_SIZE STEPS WARMUP_STEPS

Prints one JSON line: wall clock at the end of the first step, tokens per second of the whole job after the warm-up
steps, and the largest resident memory of a rank.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from transformers import LlamaConfig, LlamaForCausalLM

LENGTH = 128
SIZES = {"vocab_size": 256, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": LENGTH}


class Sequences(Dataset[Tensor]):
    """Pieces of the text, one after the other."""

    def __init__(self, path: Path) -> None:
        self.tokens = np.memmap(path, np.uint16, "r")

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // LENGTH

    def __getitem__(self, index: int) -> Tensor:
        begin = index * LENGTH
        return torch.from_numpy(self.tokens[begin : begin + LENGTH + 1].astype(np.int64))


def main(data_dir: str, batch_size: int, steps: int, warmup_steps: int) -> None:
    distributed.init_process_group("gloo")
    world = distributed.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    torch.manual_seed(0)
    (path,) = Path(data_dir).glob("*train*.bin")
    sequences = Sequences(path)
    sampler = DistributedSampler(sequences, drop_last=True)
    loader = DataLoader(sequences, batch_size, sampler=sampler, num_workers=1, persistent_workers=True, drop_last=True)
    network = LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS, rms_norm_eps=1e-5, use_cache=False))
    mesh = init_device_mesh("cpu", (world,))
    for layer in network.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    matrices = [parameter for parameter in network.parameters() if parameter.dim() > 1]
    norms = [parameter for parameter in network.parameters() if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.006, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)

    step, epoch, first_step, started = 0, 0, 0.0, 0.0
    while step < steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            logits = network(input_ids=batch[:, :-1]).logits
            loss = functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
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
        rate = (steps - warmup_steps) * batch_size * LENGTH * world / seconds
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"first_step": first_step, "units_per_second": rate, "memory_gib": memory}), flush=True)
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads now and then abort the interpreter's own exit


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
