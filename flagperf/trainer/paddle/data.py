"""Data sets, batches and loaders, by paddle.io."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from paddle.io import BatchSampler, DataLoader

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.splits import check_disjoint
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.data.datasets import check_classes, counts, print_other_data
from flagperf.trainer.data.numpy_batches import TrainBatches
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.ranks import Ranks


class Indices(BatchSampler):  # type: ignore[misc]
    """Batches as Paddle's loader takes them: lists of indices."""

    def __init__(self, batches: Iterator[list[int]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return self.batches

    def __len__(self) -> int:
        raise TypeError("batches without end")


@dataclass(frozen=True)
class Data:
    """What this rank trains and evaluates on. Both iterators are without end; the batches lie on the device.

    The processes that load go on from one evaluation to the next: Paddle's own way to begin again costs half a second.
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
    share: list[list[int]] = []
    if evaluated is not None and settings.evaluates:
        share = [indices for _, indices in eval_batches(len(evaluated), settings.eval_batch_size, ranks)]
    return Data(
        batches,
        loaded(train, (indices for _, indices in batches), settings.num_workers),
        loaded(evaluated, cycle(share), settings.num_workers) if share else iter(()),
        len(share),
        counts(train, evaluated),
    )


def loaded(dataset: Any, batches: Iterator[list[int]], workers: int) -> Iterator[Any]:
    """Batches on the device, each copied there while the device still computes on the one before."""
    return iter(DataLoader(dataset, batch_sampler=Indices(batches), num_workers=workers))


def read_first_samples(config: Mapping[str, Any]) -> None:
    """Open the data sets as a training does, read the first sample of each, and print how many there are.

    A last line says where that is not the data of the case.
    """
    datasets = {key: component(config, key) for key in ("train_data", "eval_data")}
    for key, dataset in datasets.items():
        if dataset is not None:
            dataset[0]
            print(f"{len(dataset):>12,}  samples of {key}; the first one can be read")
    print_other_data(config, datasets["train_data"], datasets["eval_data"])
