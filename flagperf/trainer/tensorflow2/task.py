"""What the loop needs to know of a model: a task, one a kind of workload. The case's `task._target_` names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray


class Task:
    """Base of all tasks. Batches are what the case's data set makes of its samples, put together by tf.data.

    `loss` and `count` are traced into graphs.

    Attributes:
        metrics: names of what `measure` gives, by which a wrong target is refused before the first step.
    """

    metrics: Sequence[str]
    counts: int  # numbers that `count` gives

    def initial_weights(self, checkpoint: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """The network's weights by their paths, from the arrays of `init_checkpoint`."""
        return checkpoint

    def loss(self, network: keras.Model, batch: Any) -> tf.Tensor:
        """Forward pass and scalar loss in float32, the mean over the batch of this rank."""
        raise NotImplementedError

    def samples(self, batch: Any) -> int:
        """Samples of the batch, known on the host without synchronising."""
        raise NotImplementedError

    def units(self, batch: Any) -> int:
        """What the throughput counts (images, tokens, frames …); samples unless the case says otherwise."""
        return self.samples(batch)

    def operations(self, network: keras.Model) -> float | None:  # noqa: ARG002
        """Floating-point operations of one forward pass over a sample of nominal size; None where nobody says."""
        return None

    def count(self, network: keras.Model, batch: Any) -> tf.Tensor:
        """Numbers of a batch of the evaluation, float64, [counts]. They are summed over all batches of all ranks."""
        raise NotImplementedError

    def measure(self, counted: NDArray[Any]) -> dict[str, float]:
        """Metrics from those sums."""
        raise NotImplementedError
