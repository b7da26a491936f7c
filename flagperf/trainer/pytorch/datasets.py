"""The data sets of a training, and their loaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.errors import FlagperfError
from flagperf.trainer.data.batches import EndlessBatches
from flagperf.trainer.data.datasets import open_datasets
from flagperf.trainer.pytorch.batches import TrainBatches
from flagperf.trainer.pytorch.loading import Loader, Seeded
from flagperf.trainer.pytorch.synthetic import HELD, HeldBatches
from flagperf.trainer.ranks import Ranks


@dataclass(frozen=True)
class Datasets:
    """The data sets and loaders of this rank."""

    train: Any  # the data set itself
    train_batches: EndlessBatches
    train_loader: Loader
    eval_loader: Loader | None  # None: nothing is evaluated
    eval_batches: int  # number of evaluation batches of this rank
    counts: Mapping[str, int]  # of the data sets, by the names of contract/extent.py

    def close(self) -> None:
        """End the processes that load."""
        self.train_loader.close()
        if self.eval_loader is not None:
            self.eval_loader.close()


def load_datasets(config: Mapping[str, Any], settings: Settings, share: Ranks, device: torch.device) -> Datasets:
    """Open the data sets and start the processes that load. Call it before the process group is made.

    Args:
        share: the number of shares of the data, and the share of this rank.

    Raises:
        ConfigError: from `open_datasets`.
    """
    opened = open_datasets(config, settings, share, HeldBatches if settings.synthetic else TrainBatches)
    workers, eval_loader = settings.num_workers, None
    load = partial(component, config, "loader") if config.get("loader") else Loader  # a vendor may have its own
    if opened.eval_batches is not None:
        eval_loader = Loader(opened.evaluation, opened.eval_batches, workers, device)
    train_loader = load(opened.train, opened.batches, workers, device, limit=HELD if settings.synthetic else None)
    eval_batches = len(opened.eval_batches or ())
    return Datasets(opened.train, opened.batches, train_loader, eval_loader, eval_batches, opened.counts)


def read_first(dataset: Any) -> None:
    """Read the first sample of a data set.

    Where the data set has a method `check`, that checks further files.
    """
    seeded = Seeded(dataset)
    sample = seeded.collate(seeded.__getitems__((0, [0])))
    if isinstance(sample, FlagperfError):
        raise sample
    if hasattr(dataset, "check"):
        dataset.check()
