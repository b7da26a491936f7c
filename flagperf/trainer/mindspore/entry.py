"""The entry for the framework-free part of the trainer. It imports MindSpore, which takes seconds."""

from __future__ import annotations

import numpy as np

from flagperf.trainer.data.samples import naming
from flagperf.trainer.mindspore.data import Dataset
from flagperf.trainer.mindspore.engine import MindSporeEngine as engine

__all__ = ["engine", "read_first"]


def read_first(dataset: Dataset) -> None:
    """Read the first sample of a data set."""
    with naming(dataset, 0):
        dataset.read(0, np.random.default_rng(0))
