"""The entry for the framework-free part of the trainer. It imports Paddle, which takes seconds."""

from __future__ import annotations

from typing import Any

from flagperf.trainer.paddle.data import Named
from flagperf.trainer.paddle.engine import PaddleEngine as engine

__all__ = ["engine", "read_first"]


def read_first(dataset: Any) -> None:
    """Read the first sample of a data set."""
    Named(dataset)[0]
