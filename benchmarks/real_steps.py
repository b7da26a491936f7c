"""Real optimizer steps of a configuration on the CPU of this machine, made of the parts that a rank has.

    python benchmarks/real_steps.py config.yaml [STEPS] [trace.json]

Prints a line of JSON: `gib`, the memory of a step at its peak; `seconds`, the median time of a step; `probe`, the
figures of this CPU, as probe=run measures them; `classes`, seconds of the operator classes of a trace
(measured_classes.py). Times are CPU seconds of one thread: other load changes them little.

Memory is what parameters, buffers and optimizer state hold, plus the growth of the process (VmHWM - VmRSS) during a
step. Two steps come before: libraries then have what they keep for themselves. For memory, run this with the variables
RETURNED: freed memory goes back to the system at once. For times, run it with KEPT: freed memory is used again, as
allocators of devices do.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measured_classes import measured_classes
from torch.utils._pytree import tree_leaves

from flagperf.contract.components import component
from flagperf.contract.trace import from_json
from flagperf.trainer.__main__ import read_config
from flagperf.trainer.pytorch.adapter import trained_parameters
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.parallel import make_strategy
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.probe import Probe
from flagperf.trainer.pytorch.randomness import seed_all
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.step_loss import StepLoss
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.pytorch.timing import Timing
from flagperf.trainer.pytorch.trace.stand_in import CPU, settings_of, world_of
from flagperf.trainer.start.imports import import_components

GIB = 2**30
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
WARM_UP = 2
ALONE = World(0, 1, 0, 1)


def step_of(config: Mapping[str, Any]) -> tuple[Callable[[], None], Callable[[], int]]:
    """A function that makes a step, and one that counts the bytes of what lives between steps."""
    settings, world = settings_of(config), world_of(config)
    seed_all(settings.seed)
    task: Task = component(config, "task")
    strategy = make_strategy(config, settings, world)
    network = build_network(config, settings, task, CPU, world).train()
    optimizer = component(config, "optimizer", trained_parameters(task, network))
    precision = Precision(settings.precision, CPU)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    clip = None if settings.clip_grad is None else partial(strategy.clip, parameters, settings.clip_grad)
    memory_format = getattr(torch, settings.memory_format)
    host = task.full_batch(config, settings.train_batch_size)
    batches = [task.to_device(host, CPU, memory_format) for _ in range(settings.gradient_accumulation_steps)]
    step_loss, model = StepLoss(task, world, len(batches)), strategy.wrapped(network, CPU)
    loss_of = precision.cast(step_loss.of)

    def step() -> None:
        for given in step_loss.given(batches):
            precision.backward(loss_of(model, *given), len(batches))
        precision.step(optimizer, clip)
        optimizer.zero_grad()

    def held() -> int:
        lasting = [*network.parameters(), *network.buffers(), *tree_leaves([list(optimizer.state.values()), batches])]
        storages = {id(leaf): leaf for leaf in lasting if isinstance(leaf, torch.Tensor)}
        return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())

    return step, held


def memory(name: str) -> int:
    """Bytes of this process, by a name of /proc/self/status."""
    (kib,) = re.findall(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"), re.MULTILINE)
    return int(kib) * 1024


def peak(step: Callable[[], None], held: Callable[[], int]) -> int:
    """Bytes at the peak of a step."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forget the peak
    step()
    return held() + memory("VmHWM") - before


class OneThread(Timing):
    """Times calls by the CPU seconds of this process."""

    def seconds(self, call: Callable[[], object], calls: int) -> float:
        """CPU seconds of some calls."""
        began = time.process_time()
        for _ in range(calls):
            call()
        return time.process_time() - began


def probed() -> dict[str, Any]:
    """The figures of this CPU."""
    probe = Probe(CPU, ALONE)
    probe.timing = OneThread(CPU, ALONE)
    figures = probe.measure()
    del figures["device"]
    return figures


def main(path: str, steps: int, traced: str | None) -> None:
    """Measure, and print the line."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    config = read_config([path])
    import_components(config)
    step, held = step_of(config)
    for _ in range(WARM_UP):
        step()
    seconds = [OneThread(CPU, ALONE).seconds(step, 1) for _ in range(steps)]
    most = max(peak(step, held) for _ in range(steps))
    measured = {"gib": most / GIB, "seconds": statistics.median(seconds), "probe": probed()}
    trace = from_json(Path(traced).read_text(encoding="utf-8"), traced) if traced else None
    classes = measured_classes(trace, OneThread(CPU, ALONE).seconds) if trace else {}
    print(json.dumps({**measured, "classes": classes}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3] if len(sys.argv) > 3 else None)
