"""The interface between the engine and a model: a task, one for each workload. The case's `task._target_` names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Metric(Protocol):
    """Takes the evaluation batches of one rank. torchmetrics.Metric and MetricCollection satisfy it."""

    def compute(self) -> Any:
        """The metrics of the whole job."""


class Task:
    """Base of all tasks. The case's data set and collate function make the batches.

    Attributes:
        metrics: names of the metrics of `evaluate`. A target about another metric is refused before the first step.
            None: the first evaluation shows the names.
        group: the process group over which `evaluate` sums: each sample lies with exactly one of its ranks. None: all
            ranks. The engine sets it, where several ranks compute on the same samples.
    """

    metrics: Sequence[str] | None = None
    group: Any = None

    values_decide = False  # whether values decide shapes in a training step, so that shapes alone do not tell its size
    full_length: int | None = None  # of the samples of full_batch, where each part of a sample costs the same

    operations_within = 0.001  # share by which the operations of `example` may differ between two equal networks

    # Whether `evaluate` calls the network exactly once for each batch, and reads no parameter. Then ranks gather one
    # block of a divided network at a time; else each rank gathers the whole network before the evaluation.
    one_call_per_batch = False

    def parameters(self, network: nn.Module) -> Any:
        """The parameters for the optimizer, in groups where the recipe treats some differently."""
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
        """Forward pass and scalar loss, the mean over the batch: over its samples, or over what `weight` counts."""
        raise NotImplementedError

    def weight(self, batch: Any) -> Tensor:
        """How many things the loss of the batch is the mean of, such as predicted tokens; a scalar on the device.

        A task has this method where equally many samples may have different numbers of them. Then the loss of a step
        does not depend on how its samples are split into ranks and micro steps. A loss of nothing must be finite.
        """
        raise NotImplementedError

    @property
    def weighted(self) -> bool:
        """Whether the task has weights. They cost a message of a few bytes between the ranks in each step."""
        return type(self).weight is not Task.weight

    def terms(self, network: nn.Module, batch: Any) -> Tensor:
        """The terms whose sum is the loss. `weight` gives a number for each. By default there is one term."""
        return self.loss(network, batch)

    def samples(self, batch: Any) -> int:
        """Samples of the batch, known on the host without synchronising."""
        raise NotImplementedError

    def units(self, batch: Any) -> int:
        """The units of the throughput in the batch (images, tokens, frames …); by default samples."""
        return self.samples(batch)

    def formula(self, network: nn.Module, config: Mapping[str, Any]) -> Mapping[str, float]:  # noqa: ARG002
        """Operations of a training step by the field's formulas, for one unit of the throughput.

        Returns:
            `formula_flops`, by which others compute MFU, `formula_flops_causal`, without the pairs of positions that
            causal attention skips, and `formula_flops_6n`, without attention; empty where the field has no formula.
        """
        return {}

    def example(self, config: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """A batch of one or more samples of nominal size, on the host: their operations identify the forward pass.

        Args:
            config: the configuration of the case, for the sizes of its data. A missing key raises KeyError.

        Returns:
            None where the task has no example; then no operations are compared.
        """
        return None

    def full_batch(self, config: Mapping[str, Any], samples: int) -> Any:
        """A training batch of so many samples of full size, on the host, for a prediction of memory and time.

        By default the samples of `example`, over and over: right where `example` is of full size.
        """
        return repeated(self.example(config), samples)

    def batch_of_length(self, config: Mapping[str, Any], samples: int, length: int) -> Any:
        """The same with samples of another length. A task that has a `full_length` has this method."""
        raise NotImplementedError

    def evaluate(self, network: nn.Module, batches: Iterable[Any], device: torch.device) -> dict[str, float]:
        """Metrics over this rank's share of the evaluation data, summed over the whole job, which is `group`.

        Every rank calls this in evaluation mode, without gradients, under the autocast of the precision, and returns
        the same values. `batches` are on the device.
        """
        raise NotImplementedError


def repeated(batch: Any, samples: int) -> Any:
    """The batch with so many samples: its first sample over and over."""
    if isinstance(batch, Tensor):
        return batch[:1].repeat(samples, *[1] * (batch.dim() - 1)) if batch.dim() else batch
    if isinstance(batch, (list, tuple)):
        return type(batch)(repeated(part, samples) for part in batch)
    if isinstance(batch, Mapping):
        return {key: repeated(part, samples) for key, part in batch.items()}
    return batch
