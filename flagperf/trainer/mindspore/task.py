"""What the loop needs to know of a model: a task, one a kind of workload. The case's `task._target_` names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mindspore import Tensor, nn
from numpy.typing import NDArray


class Task:
    """Base of all tasks. Batches are what the case's data set makes of its samples, put together by the loader.

    Attributes:
        metrics: names of what `measure` gives, by which a wrong target is refused before the first step.
    """

    metrics: Sequence[str]
    counts: int  # numbers that `count` gives

    def parameters(self, network: nn.Cell) -> Any:
        """What the optimizer gets: parameters, or parameter groups where the recipe treats some differently."""
        return network.trainable_params()

    def initial_weights(self, checkpoint: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """The network's parameters by name, from the arrays of `init_checkpoint`."""
        return checkpoint

    def loss(self, network: nn.Cell, batch: Any) -> Tensor:
        """Forward pass and scalar loss in float32, the mean over the batch of this rank."""
        raise NotImplementedError

    def samples(self, batch: Any) -> int:
        """Samples of the batch, known on the host without synchronising."""
        raise NotImplementedError

    def units(self, batch: Any) -> int:
        """What the throughput counts (images, tokens, frames …); samples unless the case says otherwise."""
        return self.samples(batch)

    def operations(self, network: nn.Cell) -> float | None:  # noqa: ARG002
        """Floating-point operations of one forward pass over a sample of nominal size; None where nobody says."""
        return None

    def count(self, network: nn.Cell, batch: Any) -> Sequence[Tensor | int]:
        """Numbers of a batch of the evaluation, `counts` of them. They are summed over all batches of all ranks."""
        raise NotImplementedError

    def measure(self, counted: NDArray[Any]) -> dict[str, float]:
        """Metrics from those sums."""
        raise NotImplementedError
