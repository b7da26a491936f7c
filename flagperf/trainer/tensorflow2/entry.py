"""The entry for the framework-free part of the trainer. It imports TensorFlow, which takes seconds."""

from __future__ import annotations

from flagperf.trainer.tensorflow2.data import Dataset, check_readable
from flagperf.trainer.tensorflow2.engine import TensorFlowEngine as engine

__all__ = ["engine", "read_first"]


def read_first(dataset: Dataset) -> None:
    """Read the first sample of a data set."""
    check_readable(dataset, 0, [0])
