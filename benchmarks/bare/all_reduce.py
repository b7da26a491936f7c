"""An all-reduce loop by hand, without flagperf: prints the bus bandwidth in bytes/s, on rank 0.

RANK=0 WORLD_SIZE=2 MASTER_ADDR=… MASTER_PORT=29500 python benchmarks/bare/all_reduce.py BYTES CALLS
"""

import os
import sys
import time

import torch
from torch import distributed as dist

size, calls = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo")
message = torch.ones(size // 4)
for _ in range(3):
    dist.all_reduce(message)
dist.barrier()
began = time.perf_counter()
for _ in range(calls):
    dist.all_reduce(message)
dist.barrier()
seconds = (time.perf_counter() - began) / calls
ranks = dist.get_world_size()
if dist.get_rank() == 0:
    print(2 * (ranks - 1) / ranks * size / seconds, flush=True)
sys.stdout.flush()
os._exit(0)
