"""What the loop needs to know of a model: a task, one a kind of workload. The case's `task._target_` names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from paddle import Tensor, nn

from flagperf.trainer.paddle.ranks import World


class Task:
    """Base of all tasks. Batches are whatever Paddle's loader makes of the case's data set, on the device.

    Attributes:
        metrics: names of what `evaluate` gives, by which a wrong target is refused before the first step.
    """

    metrics: Sequence[str]

    def parameters(self, network: nn.Layer) -> Any:
        """What the optimizer gets: parameters, or parameter groups where the recipe treats some differently."""
        return network.parameters()

    def initial_weights(self, checkpoint: Mapping[str, Any]) -> Mapping[str, NDArray[Any]]:
        """State dict of the network, from the arrays of `init_checkpoint`. Published files may use other names."""
        return checkpoint

    def loss(self, network: nn.Layer, batch: Any) -> Tensor:
        """Forward pass and scalar loss, the mean over the batch."""
        raise NotImplementedError

    def samples(self, batch: Any) -> int:
        """Samples of the batch, known on the host without synchronising."""
        raise NotImplementedError

    def units(self, batch: Any) -> int:
        """What the throughput counts (images, tokens, frames …); samples unless the case says otherwise."""
        return self.samples(batch)

    def operations(self, config: Mapping[str, Any]) -> float | None:  # noqa: ARG002
        """Floating-point operations of one forward pass over a sample of nominal size; None where nobody says."""
        return None

    def evaluate(self, network: nn.Layer, batches: Iterable[Any], world: World) -> dict[str, float]:
        """Metrics over this rank's share of the evaluation data, summed over the whole job: the same on every rank.

        Called in evaluation mode, without gradients, under the autocast of the precision.
        """
        raise NotImplementedError
