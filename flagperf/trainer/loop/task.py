"""What the loop needs to know of a model: a task, one a kind of workload. The case's `task._target_` names it.

It is that of every framework but PyTorch, whose tasks know more (pytorch/task.py). Networks, batches and losses are
those of the framework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray


class Task:
    """Base of all tasks. Batches are what the framework's loader makes of the case's data set.

    Attributes:
        metrics: names of what `measure` gives, by which a wrong target is refused before the first step.
        counts: numbers that `count` gives.
    """

    metrics: Sequence[str]
    counts: int

    def parameters(self, network: Any) -> Any:
        """What the optimizer gets: parameters, or parameter groups where the recipe treats some differently.

        Keras's optimizers get all weights that are trained.
        """
        raise NotImplementedError

    def initial_weights(self, checkpoint: Mapping[str, Any]) -> Mapping[str, NDArray[Any]]:
        """The network's weights by their names, from the arrays of `init_checkpoint`: published files use others."""
        return checkpoint

    def loss(self, network: Any, batch: Any) -> Any:
        """Forward pass and scalar loss in float32, the mean over the batch of this rank."""
        raise NotImplementedError

    def samples(self, batch: Any) -> int:
        """Samples of the batch, known on the host without synchronising."""
        raise NotImplementedError

    def units(self, batch: Any) -> int:
        """What the throughput counts (images, tokens, frames …); samples unless the case says otherwise."""
        return self.samples(batch)

    def operations(self, network: Any, config: Mapping[str, Any]) -> float | None:  # noqa: ARG002
        """Floating-point operations of one forward pass over a sample of nominal size; None where nobody says."""
        return None

    def count(self, network: Any, batch: Any) -> Any:
        """A tensor of `counts` numbers, float64, of a batch of the evaluation: summed over all batches of all ranks."""
        raise NotImplementedError

    def measure(self, counted: NDArray[Any]) -> dict[str, float]:
        """Metrics from those sums."""
        raise NotImplementedError
