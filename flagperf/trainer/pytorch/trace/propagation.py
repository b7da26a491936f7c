"""Shapes that DTensor computes by running an operator on fake tensors of the whole size. No device does this work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.distributed.tensor._sharding_prop import ShardingPropagator

from flagperf.trainer.pytorch.trace.tally import Tally

METHOD = "_propagate_tensor_meta_non_cached"  # the only method that runs operators for their shapes; torch 2.11 to 2.14


@contextmanager
def shapes_unseen(tally: Tally) -> Iterator[None]:
    """A block in which the tally does not count the operators by which DTensor computes shapes."""
    computed = getattr(ShardingPropagator, METHOD)

    def unseen(propagator: ShardingPropagator, schema: Any) -> Any:
        tally.unseen += 1
        try:
            return computed(propagator, schema)
        finally:
            tally.unseen -= 1

    with patch.object(ShardingPropagator, METHOD, unseen):
        yield
