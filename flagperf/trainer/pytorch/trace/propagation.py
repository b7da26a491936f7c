"""Shapes that DTensor computes by running an operator on fake tensors of the whole size. No device does this work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from torch.distributed.tensor._sharding_prop import ShardingPropagator

from flagperf.trainer.pytorch.trace.tally import Tally


class _Unseen:
    """Takes the place of the lock that torch holds while it computes shapes."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def __enter__(self) -> None:
        self._tally.unseen += 1

    def __exit__(self, *_: object) -> None:
        self._tally.unseen -= 1


@contextmanager
def shapes_unseen(tally: Tally) -> Iterator[None]:
    """A block in which the tally does not count the operators by which DTensor computes shapes."""
    with patch.object(ShardingPropagator, "_fake_mode_lock", _Unseen(tally)):
        yield
