"""Batches on the device, by paddle.io."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from paddle.io import BatchSampler, DataLoader, Dataset

from flagperf.trainer.data.batches import Numbered
from flagperf.trainer.data.datasets import Loaded, Opened, load_batches
from flagperf.trainer.data.samples import naming


class Indices(BatchSampler):  # type: ignore[misc]
    """Batches as Paddle's loader takes them: lists of indices."""

    def __init__(self, batches: Iterator[list[int]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return self.batches

    def __len__(self) -> int:
        raise TypeError("batches without end")


class Named(Dataset):  # type: ignore[misc]
    """A data set whose errors name the sample."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        with naming(self.dataset, index):
            return self.dataset[index]


def load(opened: Opened, workers: int) -> Loaded:
    """Start the processes that load; they are forks of this process.

    They go on from one evaluation to the next: Paddle's own way to begin again costs half a second.
    """

    def load_device(dataset: Any, batches: Iterable[Numbered]) -> Iterator[Any]:
        """Batches on the device, each copied there while the device still computes on the one before."""
        indices = Indices(batch for _, batch in batches)
        return iter(DataLoader(Named(dataset), batch_sampler=indices, num_workers=workers))

    return load_batches(opened, load_device)
