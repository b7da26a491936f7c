"""The interface between the loop and a model: a task, one for each workload. The case's `task._target_` names it.

PyTorch has a larger interface (pytorch/task.py); all other frameworks use this one. Networks, batches and losses are
objects of the framework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray


class Task:
    """Base of all tasks. The framework's loader makes the batches of the case's data set.

    Attributes:
        metrics: names of the metrics of `measure`. A target about another metric is refused before the first step.
        counts: how many numbers `count` returns.
    """

    metrics: Sequence[str]
    counts: int

    def parameters(self, network: Any) -> Any:
        """The parameters for the optimizer, in groups where the recipe treats some differently.

        Keras's optimizers get all trained weights and do not call this.
        """
        raise NotImplementedError

    def initial_weights(self, checkpoint: Mapping[str, Any]) -> Mapping[str, NDArray[Any]]:
        """The network's weights by their names, from the arrays of `init_checkpoint`, whose names may differ."""
        return checkpoint

    def loss(self, network: Any, batch: Any) -> Any:
        """Forward pass and scalar loss in float32, the mean over the batch: its samples, or what `weight` counts."""
        raise NotImplementedError

    def weight(self, batch: Any) -> Any:
        """How many things the loss of the batch is the mean of, such as predicted tokens; a tensor of one number.

        A task has this method where equally many samples may have different numbers of them. Then the loss of a step
        does not depend on how its samples are split into ranks and micro steps. A loss of nothing must be finite.
        """
        raise NotImplementedError

    @property
    def weighted(self) -> bool:
        """Whether the task has weights. They cost a message of a few bytes between the ranks in each step."""
        return type(self).weight is not Task.weight

    def terms(self, network: Any, batch: Any) -> Any:
        """The terms whose sum is the loss, a tensor of as many numbers as `weight` gives. By default there is one."""
        return self.loss(network, batch)

    def samples(self, batch: Any) -> int:
        """Samples of the batch, known on the host without synchronising."""
        raise NotImplementedError

    def units(self, batch: Any) -> int:
        """The units of the throughput in the batch (images, tokens, frames …); by default samples."""
        return self.samples(batch)

    def operations(self, network: Any, config: Mapping[str, Any]) -> float | None:  # noqa: ARG002
        """Floating-point operations of one forward pass over a sample of nominal size; None: unknown."""
        return None

    def count(self, network: Any, batch: Any) -> Any:
        """A float64 tensor, [counts], of a batch of the evaluation. The engine sums it over all batches and ranks."""
        raise NotImplementedError

    def measure(self, counted: NDArray[Any]) -> dict[str, float]:
        """Metrics from the sums of `count`, [counts]."""
        raise NotImplementedError
