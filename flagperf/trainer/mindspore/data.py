"""Base of the data sets, and their batches by MindSpore's loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from mindspore import Tensor
from mindspore.dataset.dataloader import DataLoader
from numpy.typing import NDArray

from flagperf.trainer.data.batches import Numbered
from flagperf.trainer.data.datasets import Loaded, Opened, load_batches
from flagperf.trainer.data.samples import naming


class Dataset:
    """Base of the data sets."""

    def __len__(self) -> int:
        raise NotImplementedError

    def read(self, index: int, generator: np.random.Generator) -> tuple[Any, ...]:
        """The sample of an index, as arrays and numbers. All its random numbers come from the generator."""
        raise NotImplementedError


class SampleReader:
    """A data set for MindSpore's loader. A key is a sample's index, the seed of its batch, and its position there."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __getitem__(self, key: tuple[int, int, int]) -> tuple[Any, ...]:
        index, *seeds = key
        with naming(self.dataset, index):
            return self.dataset.read(index, np.random.default_rng(seeds))


def load(opened: Opened, workers: int) -> Loaded:
    """Start the processes that load; they are forks of this process, and go on from one evaluation to the next.

    Batches travel as arrays: MindSpore's own way, a tensor in shared memory for each, costs the rank 6 ms a batch more.

    Args:
        workers: processes; 0: this process loads.
    """

    def load_tensors(dataset: Dataset, batches: Iterable[Numbered]) -> Iterator[list[Tensor]]:
        keys = ([(index, seed, position) for position, index in enumerate(indices)] for seed, indices in batches)
        loader = DataLoader(SampleReader(dataset), batch_sampler=keys, num_workers=workers, collate_fn=_stacked)
        return ([Tensor.from_numpy(array) for array in arrays] for arrays in iter(loader))

    return load_batches(opened, load_tensors)


def _stacked(samples: list[tuple[Any, ...]]) -> list[NDArray[Any]]:
    """The arrays of a batch, [sample, …]."""
    return [np.stack(values) for values in zip(*samples)]
