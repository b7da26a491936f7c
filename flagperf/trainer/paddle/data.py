"""Batches on the device, by paddle.io."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from paddle.io import BatchSampler, DataLoader

from flagperf.trainer.data.datasets import Loaded, Opened


class Indices(BatchSampler):  # type: ignore[misc]
    """Batches as Paddle's loader takes them: lists of indices."""

    def __init__(self, batches: Iterator[list[int]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return self.batches

    def __len__(self) -> int:
        raise TypeError("batches without end")


def load(opened: Opened, workers: int) -> Loaded:
    """Start the processes that load; they are forks of this process.

    They go on from one evaluation to the next: Paddle's own way to begin again costs half a second.
    """
    share = [indices for _, indices in opened.eval_batches or ()]
    train = loaded(opened.train, (indices for _, indices in opened.batches), workers)
    evaluated = loaded(opened.evaluated, cycle(share), workers) if share else iter(())
    return Loaded(train, lambda: islice(evaluated, len(share)))


def loaded(dataset: Any, batches: Iterator[list[int]], workers: int) -> Iterator[Any]:
    """Batches on the device, each copied there while the device still computes on the one before."""
    return iter(DataLoader(dataset, batch_sampler=Indices(batches), num_workers=workers))
