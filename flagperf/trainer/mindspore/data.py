"""Base of the data sets, and their batches by MindSpore's loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np
from mindspore import Tensor
from mindspore.dataset.dataloader import DataLoader
from numpy.typing import NDArray

from flagperf.trainer.data.batches import Numbered
from flagperf.trainer.data.datasets import Loaded, Opened


class Dataset:
    """Base of the data sets."""

    def __len__(self) -> int:
        raise NotImplementedError

    def read(self, index: int, generator: np.random.Generator) -> tuple[Any, ...]:
        """The sample of an index, as arrays and numbers; all that is random must come from its generator."""
        raise NotImplementedError


class Drawn:
    """A data set as the loader asks for its samples: each with the seed of its batch, and its place there."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __getitem__(self, asked: tuple[int, int, int]) -> tuple[Any, ...]:
        index, *seeds = asked
        return self.dataset.read(index, np.random.default_rng(seeds))


def load(opened: Opened, workers: int) -> Loaded:
    """Start the processes that load; they are forks of this process, and go on from one evaluation to the next."""
    share = opened.eval_batches or []
    evaluated = loaded(opened.evaluated, cycle(share), workers) if share else iter(())
    return Loaded(loaded(opened.train, opened.batches, workers), lambda: islice(evaluated, len(share)))


def loaded(dataset: Dataset, batches: Iterable[Numbered], workers: int) -> Iterator[list[Tensor]]:
    """Batches, read by so many processes; 0: by this one.

    They travel as arrays: MindSpore's own way, a tensor in shared memory for each, costs the rank 6 ms a batch more.
    """
    asked = ([(index, seed, place) for place, index in enumerate(indices)] for seed, indices in batches)
    return map(tensors, iter(DataLoader(Drawn(dataset), batch_sampler=asked, num_workers=workers, collate_fn=stacked)))


def stacked(samples: list[tuple[Any, ...]]) -> list[NDArray[Any]]:
    """The arrays of a batch, [sample, …]."""
    return [np.stack(values) for values in zip(*samples)]


def tensors(arrays: list[NDArray[Any]]) -> list[Tensor]:
    """The tensors of a batch."""
    return [Tensor.from_numpy(array) for array in arrays]
