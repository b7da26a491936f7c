"""Evaluation batches of ranks that gather their parameters together: all ranks call the network equally often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn


def equally_many(network: nn.Module, batches: Iterator[Any], more: int) -> Iterator[Any]:
    """The batches of a rank that has at least one. After them, the last call of the network is made `more` times again.

    Nobody sees the outputs of these calls, so each sample counts once.
    """
    last: tuple[Any, Any] = ((), {})

    def note(_: nn.Module, args: Any, kwargs: Any) -> None:
        nonlocal last
        last = args, kwargs

    noting = network.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield from batches
    finally:
        noting.remove()
    for _ in range(more):
        network(*last[0], **last[1])
