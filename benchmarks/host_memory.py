"""Peak host memory of a rank that builds its part of Llama 3 at full size. The group of ranks sends nothing.

    python benchmarks/host_memory.py                 8B over 8 ranks, and 70B over 64
    python benchmarks/host_memory.py 8B initialisation=in_order

A rank may need its parts of the parameters in fp32, one block, and 1 GiB. The growth during the build is printed. 8B
needs 5 GiB of free memory, and minutes. The second command builds the whole network first: 30 GiB.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

from flagperf.config.compose import compose
from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.trainer.pytorch.parallel import make_strategy
from flagperf.trainer.pytorch.parts import divided_network
from flagperf.trainer.pytorch.ranks import World

GIB = 1 << 30
SIZES = {  # ranks, and what the network has in place of llama3_8b's sizes
    "8B": (8, ()),
    "70B": (64, ("hidden_size=8192", "intermediate_size=28672", "num_hidden_layers=80", "num_attention_heads=64")),
}


def memory(name: str) -> float:
    """GiB of this process, by a name of /proc/self/status."""
    (kib,) = re.findall(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kib) / (1 << 20)


def measure(size: str, overrides: list[str]) -> None:
    """Build the part of rank 0, and print its memory."""
    ranks, sizes = SIZES[size]
    nodes = [f"nnodes={ranks // 8}", "nproc=8", "size=full", "train_batch_size=1", "global_batch_size=64"]
    nodes += ["dry_run=true", "division=open"]
    given = ["model=llama3_8b", *nodes, *(f"network.config.{each}" for each in sizes), *overrides]
    config = compose(given, []).config
    settings, world = Settings.read(config), World(0, ranks, 0, 8)
    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    task, strategy = component(config, "task"), make_strategy(config, settings, world)
    before, began = memory("VmRSS"), time.perf_counter()
    _, network, _ = divided_network(config, settings, task, strategy, torch.device("cpu"), world)
    parts = sum(part.numel() * 4 for part in strategy.held(network)) / GIB
    block = sum(parameter.numel() * 4 for parameter in network.model.layers[0].parameters()) / GIB
    peak, limit = memory("VmHWM") - before, parts + block + 1
    print(
        f"{size} over {ranks} ranks: {peak:.2f} GiB at the peak, parts {parts:.2f}, a block {block:.2f}: "
        f"limit {limit:.2f}, {'met' if peak <= limit else 'NOT met'}; {time.perf_counter() - began:.0f} s"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1], sys.argv[2:])
    else:
        for each in SIZES:  # a process each: the peak is that of a process
            subprocess.run([sys.executable, __file__, each], check=True)
