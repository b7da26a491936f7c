"""Measures the rates that the devices of a job achieve, through torch alone. docs/probe.md explains each figure.

All ranks measure at the same time, with the same sizes and numbers of calls. So devices that share power, cooling or a
bus are measured under the load of a training.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Callable, Tuple

import torch
from torch import distributed as dist

from flagperf.trainer.pytorch.device import device_name
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.timing import Timing

SECONDS = 1.0  # time to measure a figure at the chosen size
LONG = 0.02  # seconds of a call at the chosen size, unless that is the largest size
MIB = 2**20
SIDES = (256, 512, 1024, 2048, 4096, 8192)  # of square matrices
COPIES = (64 * MIB, 256 * MIB, 1024 * MIB)  # bytes; the largest is larger than any cache
TRANSFERS = (16 * MIB, 64 * MIB, 256 * MIB)  # bytes
MESSAGES = (4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)  # bytes
FORMATS = {  # name in a hardware's peak_flops → type of the matrices, and how torch multiplies float32
    "fp32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "fp16": (torch.float16, "highest"),
    "bf16": (torch.bfloat16, "highest"),
}

Work = Tuple[Callable[[], object], float]  # one call, and its amount of work: operations or bytes


class Probe:
    """Measures the device of one rank, at the same time as the other ranks."""

    def __init__(self, device: torch.device, world: World) -> None:
        self.device, self.world, self.timing = device, world, Timing(device, world)

    @torch.no_grad()
    def measure(self) -> dict[str, Any]:
        """Name of the device, and figures in FLOP/s and bytes/s; None where it lacks operation or memory.

        Figures without a meaning here are missing: TF32 on a CPU, all-reduce over one rank.
        """
        formats = [name for name in FORMATS if not (name == "tf32" and self.device.type == "cpu")]
        figures = {name: self._matmul(*FORMATS[name]) for name in formats}
        torch.set_float32_matmul_precision("highest")
        figures["memory"] = self._rate(COPIES, self._copy)
        figures["host_to_device"] = self._rate(TRANSFERS, self._transfer)
        if self.world.local_size > 1:
            figures["all_reduce_node"] = self._all_reduce(self._node(), self.world.local_size)
        if self.world.size > self.world.local_size:
            figures["all_reduce"] = self._all_reduce(None, self.world.size)
        return {"device": device_name(self.device), **figures}

    def _matmul(self, dtype: torch.dtype, precision: str) -> float | None:
        """FLOP/s of a product of square matrices. Random numbers: a chip draws less power on zeros."""
        torch.set_float32_matmul_precision(precision)

        def make(side: int) -> Work:
            first, second, product = (torch.rand(side, side, device=self.device).to(dtype) for _ in range(3))
            return lambda: torch.mm(first, second, out=product), 2.0 * side**3

        return self._rate(SIDES, make)

    def _copy(self, size: int) -> Work:
        """A copy within the device's memory: each byte is read and written. Pages of zeros may not be allocated."""
        source, target = (torch.ones(size, dtype=torch.uint8, device=self.device) for _ in range(2))
        return lambda: target.copy_(source), 2.0 * size

    def _transfer(self, size: int) -> Work:
        """A copy from pinned memory of the host to the device."""
        source = torch.ones(size, dtype=torch.uint8, pin_memory=self.device.type != "cpu")
        target = torch.ones(size, dtype=torch.uint8, device=self.device)
        return lambda: target.copy_(source, non_blocking=True), float(size)

    def _all_reduce(self, group: Any, ranks: int) -> float | None:
        """Bytes/s of each rank's link in an all-reduce: 2 (n-1)/n of a message pass it (nccl-tests' busbw)."""

        def make(size: int) -> Work:
            message = torch.zeros(size // 4, device=self.device)
            return lambda: dist.all_reduce(message, group=group), 2.0 * size * (ranks - 1) / ranks

        return self._rate(MESSAGES, make)

    def _node(self) -> Any:
        """The process group of this node's ranks. All ranks make the groups of all nodes together."""
        size, local = self.world.size, self.world.local_size
        if size == local:
            return None
        groups = [dist.new_group(list(range(first, first + local))) for first in range(0, size, local)]
        return groups[self.world.rank // local]

    def _rate(self, sizes: Sequence[int], make: Callable[[int], Work]) -> float | None:
        """Work per second, at the first size whose call takes LONG, or the largest that fits; None: no size fits."""
        measured: tuple[Callable[[], object], float, float] | None = None
        for size in sizes:
            work = self.timing.together(partial(make, size))
            if work is None or self.timing.together(partial(self.timing.seconds, work[0], 1)) is None:
                break
            measured = *work, self.world.largest(self.timing.seconds(work[0], 1))
            if measured[2] > LONG:
                break
        if measured is None:
            return None
        call, amount, seconds = measured
        calls = max(1, round(SECONDS / max(seconds, 1e-6)))
        self.world.wait()
        return amount * calls / self.timing.seconds(call, calls)
