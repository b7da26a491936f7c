"""How the ranks of PyTorch join, sum and gather."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch import distributed as dist

from flagperf.trainer.pytorch.by_version import bound_to, leave_group, sent_buffers, unwatched_group
from flagperf.trainer.ranks import Ranks

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class World(Ranks):
    """Ranks that talk through torch.distributed."""

    group: Any = None  # the process group; None: the default one

    def connect(self, device: torch.device, backend: str, timeout: float, *, alone: bool = False) -> None:
        """Join the process group.

        Host values travel over gloo, device tensors over the vendor's backend, in one group: a host value never waits
        for a device. Gloo has threads, so no process may be forked afterwards.

        Args:
            timeout: seconds a collective may wait.
            alone: whether a single rank makes a group, too.
        """
        if (self.size > 1 or alone) and not dist.is_initialized():
            backends = backend if device.type == "cpu" else f"cpu:gloo,{device.type}:{backend}"
            options: dict[str, Any] = dict(bound_to(device))
            if self.size == 1:  # needs no rendezvous
                options = {**options, "store": dist.HashStore(), "rank": 0, "world_size": 1}  # type: ignore[attr-defined]
            dist.init_process_group(backends, timeout=timedelta(seconds=timeout), **options)

    def apart(self, timeout: float) -> Self:
        """The same ranks in a process group of their own: a thread's messages meet none of the training. All call it.

        Args:
            timeout: seconds a collective may wait.
        """
        if self.size == 1:
            return self
        return replace(self, group=unwatched_group(timedelta(seconds=timeout)))

    def disconnect(self) -> None:
        """Leave the process group."""
        if self.size > 1:
            leave_group()

    def sum(self, values: Tensor) -> Tensor:
        """Sum over the ranks, in place, on the device of the values and in the order of its work."""
        if self.size > 1:
            dist.all_reduce(values, group=self.group)
        return values

    def largest(self, value: float) -> float:
        """The largest value of a host number over the ranks, the same on each."""
        if self.size == 1:
            return value
        number = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(number, dist.ReduceOp.MAX, group=self.group)
        return number.item()

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, on every rank."""
        if self.size == 1:
            return [value]
        values = [None] * self.size
        dist.all_gather_object(values, value, group=self.group)
        return values

    def copy_buffers(self, network: torch.nn.Module) -> None:
        """Give every rank the buffers of rank 0: running statistics of batch norm differ between ranks."""
        if self.size > 1:
            for buffer in sent_buffers(network):
                dist.broadcast(buffer, 0)
