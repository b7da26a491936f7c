"""The data sets of a training, and their loaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.splits import check_disjoint
from flagperf.errors import FlagperfError
from flagperf.trainer.data.batches import eval_batches
from flagperf.trainer.data.datasets import check_classes, counts, print_other_data
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.loading import Loader, Seeded
from flagperf.trainer.pytorch.synthetic import HELD, HeldBatches
from flagperf.trainer.ranks import Ranks


@dataclass(frozen=True)
class Datasets:
    """What this rank trains and evaluates on."""

    train: Any  # the data set itself
    train_batches: TrainBatches
    train_loader: Loader
    eval_loader: Loader | None  # None: nothing is evaluated
    counts: Mapping[str, int]  # what the data sets hold, by the names of contract/extent.py

    def close(self) -> None:
        """End the processes that load."""
        self.train_loader.close()
        if self.eval_loader is not None:
            self.eval_loader.close()


def open_datasets(config: Mapping[str, Any], settings: Settings, share: Ranks, device: torch.device) -> Datasets:
    """Open the data sets and start the processes that load; to be called before the process group is made.

    `share`: which share of the data this rank gets, of how many.

    Raises:
        ConfigError: the training data is too small for one step, or the data sets do not fit each other, or are the
            same.
    """
    if config["data_dir"] and not settings.synthetic and share.local_rank == 0:
        check_disjoint(config, config["data_dir"])
    train = component(config, "train_data")
    evaluated = None if settings.synthetic else component(config, "eval_data")
    check_classes(train, evaluated)
    sampler = HeldBatches if settings.synthetic else TrainBatches
    batches = sampler(train, settings.train_batch_size, settings.gradient_accumulation_steps, share, settings.seed)
    workers, eval_loader = settings.num_workers, None
    load = partial(component, config, "loader") if config.get("loader") else Loader  # a vendor may have its own
    if evaluated is not None and settings.evaluates:
        own = eval_batches(len(evaluated), settings.eval_batch_size, share)
        eval_loader = Loader(evaluated, own, workers, device)
    train_loader = load(train, batches, workers, device, limit=HELD if settings.synthetic else None)
    return Datasets(train, batches, train_loader, eval_loader, counts(train, evaluated))


def read_first_samples(config: Mapping[str, Any]) -> None:
    """Open the data sets as a training does, read the first sample of each, and print how many there are.

    A data set that has a method `check` looks at more of its files by it than a training does.

    A last line says where that is not the data of the case.
    """
    datasets = {key: component(config, key) for key in ("train_data", "eval_data")}
    for key, dataset in datasets.items():
        if dataset is None:
            continue
        seeded = Seeded(dataset)
        sample = seeded.collate(seeded.__getitems__((0, [0])))
        if isinstance(sample, FlagperfError):
            raise sample
        if hasattr(dataset, "check"):
            dataset.check()
        print(f"{len(dataset):>12,}  samples of {key}; the first one can be read")
    print_other_data(config, datasets["train_data"], datasets["eval_data"])
