"""What the loop needs to know of a model: a task, one a kind of workload. The case's `task._target_` names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Metric(Protocol):
    """Takes the evaluation batches of one rank; `compute` answers for the whole job.

    torchmetrics.Metric and MetricCollection satisfy it.
    """

    def compute(self) -> Any: ...


class Task:
    """Base of all tasks. Batches are whatever the case's data set and collate function give.

    Attributes:
        metrics: names of what `evaluate` gives, by which a wrong target is refused before the first step. None: the
            task does not say, and the first evaluation tells.
        group: the ranks over which `evaluate` sums, a process group: each sample lies with exactly one of them. None:
            all ranks. The loop sets it, where several ranks compute on the same samples.
    """

    metrics: Sequence[str] | None = None
    group: Any = None

    operations_within = 0.001  # share by which the operations of `example` may differ between two networks alike

    def parameters(self, network: nn.Module) -> Any:
        """What the optimizer gets: parameters, or parameter groups where the recipe treats some differently."""
        return network.parameters()

    def pretrained(self, network: nn.Module) -> nn.Module:
        """The part of the network that `init_checkpoint` fills: all of it, unless the recipe starts from a backbone."""
        return network

    def initial_weights(self, checkpoint: Any) -> Mapping[str, Tensor]:
        """State dict for that part, from the content of `init_checkpoint`. Published files may use other names."""
        weights: Mapping[str, Tensor] = checkpoint
        return weights

    def to_device(self, batch: Any, device: torch.device, memory_format: torch.memory_format) -> Any:
        """Move one batch, asynchronously where its memory is pinned; tensors with channels get the memory format."""
        if isinstance(batch, Tensor):
            if batch.dim() == 4:
                return batch.to(device, non_blocking=True, memory_format=memory_format)
            return batch if batch.device == device else batch.to(device, non_blocking=True)
        if isinstance(batch, (list, tuple)):
            return [self.to_device(part, device, memory_format) for part in batch]
        if isinstance(batch, Mapping):
            return {key: self.to_device(part, device, memory_format) for key, part in batch.items()}
        return batch

    def loss(self, network: nn.Module, batch: Any) -> Tensor:
        """Forward pass and scalar loss, the mean over the batch."""
        raise NotImplementedError

    def samples(self, batch: Any) -> int:
        """Samples of the batch, known on the host without synchronising."""
        raise NotImplementedError

    def units(self, batch: Any) -> int:
        """What the throughput counts (images, tokens, frames …); samples unless the case says otherwise."""
        return self.samples(batch)

    def formula(self, network: nn.Module, config: Mapping[str, Any]) -> Mapping[str, float]:  # noqa: ARG002
        """What the field's formulas say of a training step, in operations of one unit of the throughput.

        Returns:
            `formula_flops`, by which others compute MFU, and `formula_flops_causal`, without the pairs of places that
            attention leaves out; empty where the field has no formula.
        """
        return {}

    def example(self, config: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """A batch of one or more samples of nominal size, on the host: their operations identify the forward pass.

        Args:
            config: the configuration of the case, for the sizes of its data. A key that is missing raises KeyError.

        Returns:
            None where the task has none; the operations are not compared then.
        """
        return None

    def evaluate(self, network: nn.Module, batches: Iterable[Any], device: torch.device) -> dict[str, float]:
        """Metrics over this rank's share of the evaluation data, summed over the whole job, which is `group`.

        Called on every rank, in evaluation mode, without gradients, under the autocast of the precision, with `batches`
        an iterable of batches that `to_device` has moved; every rank returns the same values.
        """
        raise NotImplementedError
