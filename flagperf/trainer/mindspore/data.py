"""Data sets, batches and loaders, by mindspore.dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
from mindspore import Tensor
from mindspore.dataset.dataloader import DataLoader
from numpy.typing import NDArray

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.splits import check_disjoint
from flagperf.trainer.data.batches import Numbered, eval_batches
from flagperf.trainer.data.datasets import check_classes, counts, print_other_data
from flagperf.trainer.data.numpy_batches import TrainBatches
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.ranks import Ranks


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


@dataclass(frozen=True)
class Data:
    """What this rank trains and evaluates on. Both iterators are without end.

    The processes that load go on from one evaluation to the next.
    """

    train_batches: TrainBatches
    train: Iterator[Any]
    eval: Iterator[Any]
    eval_steps: int  # batches of one evaluation on this rank
    counts: Mapping[str, int]  # what the data sets hold, by the names of contract/extent.py

    def evaluation(self) -> Iterator[Any]:
        """The batches of one evaluation."""
        return islice(self.eval, self.eval_steps)


def open_data(config: Mapping[str, Any], settings: Settings, ranks: Ranks, position: Position) -> Data:
    """Open the data sets and start the processes that load, from a position on. They are forks of this process.

    Raises:
        ConfigError: the training data is too small for one step, or the data sets do not fit each other.
    """
    if config["data_dir"] and ranks.local_rank == 0:
        check_disjoint(config, config["data_dir"])
    train, evaluated = component(config, "train_data"), component(config, "eval_data")
    check_classes(train, evaluated)
    batches = TrainBatches(train, settings.train_batch_size, settings.gradient_accumulation_steps, ranks, settings.seed)
    batches.start_at(position.epoch, position.step_in_epoch)
    share: list[Numbered] = []
    if evaluated is not None and settings.evaluates:
        share = eval_batches(len(evaluated), settings.eval_batch_size, ranks)
    return Data(
        batches,
        loaded(train, batches, settings.num_workers),
        loaded(evaluated, cycle(share), settings.num_workers) if share else iter(()),
        len(share),
        counts(train, evaluated),
    )


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


def read_first_samples(config: Mapping[str, Any]) -> None:
    """Open the data sets as a training does, read the first sample of each, and print how many there are.

    A last line says where that is not the data of the case.
    """
    datasets = {key: component(config, key) for key in ("train_data", "eval_data")}
    for key, dataset in datasets.items():
        if dataset is not None:
            dataset.read(0, np.random.default_rng(0))
            print(f"{len(dataset):>12,}  samples of {key}; the first one can be read")
    print_other_data(config, datasets["train_data"], datasets["eval_data"])
