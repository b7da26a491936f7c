"""The calls of torch.distributed that are measured, by their names in `contract.fabric.COLLECTIVES`."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch import Tensor
from torch import distributed as dist

WIDTH = 4  # bytes of a float32
Call = Callable[[], object]
Make = Callable[[Tensor, Any, Sequence[int]], Call]


def _all_reduce(message: Tensor, group: Any, _: Sequence[int]) -> Call:
    return lambda: dist.all_reduce(message, group=group)


def _all_gather(message: Tensor, group: Any, ranks: Sequence[int]) -> Call:
    part = torch.ones_like(message[: len(message) // len(ranks)])
    return lambda: dist.all_gather_into_tensor(message, part, group=group)


def _reduce_scatter(message: Tensor, group: Any, ranks: Sequence[int]) -> Call:
    part = torch.empty_like(message[: len(message) // len(ranks)])
    return lambda: dist.reduce_scatter_tensor(part, message, group=group)


def _broadcast(message: Tensor, group: Any, ranks: Sequence[int]) -> Call:
    return lambda: dist.broadcast(message, ranks[0], group=group)


def _all_to_all(message: Tensor, group: Any, _: Sequence[int]) -> Call:
    result = torch.empty_like(message)
    return lambda: dist.all_to_all_single(result, message, group=group)


def _send_recv(message: Tensor, group: Any, ranks: Sequence[int]) -> Call:
    """Each rank sends to the next of its group and receives from the one before it, at the same time."""
    result, position = torch.empty_like(message), ranks.index(dist.get_rank())
    to, source = ranks[(position + 1) % len(ranks)], ranks[position - 1]

    def call() -> None:
        sending = dist.P2POp(dist.isend, message, to, group=group)
        receiving = dist.P2POp(dist.irecv, result, source, group=group)
        for request in dist.batch_isend_irecv([sending, receiving]):
            request.wait()

    return call


MAKE: dict[str, Make] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
}


def collective(kind: str, size: int, group: Any, ranks: Sequence[int], device: torch.device) -> tuple[Call, int]:
    """One call of a collective, and the bytes of its largest buffer: `size`, rounded to parts of all ranks.

    Args:
        group: the process group; None: all ranks.
        ranks: of the group.
    """
    count = max(1, size // WIDTH // len(ranks)) * len(ranks)
    message = torch.ones(count, device=device)  # pages of zeros may not be allocated
    return MAKE[kind](message, group, ranks), count * WIDTH
