"""Evaluation: the task's metrics over the whole job, on the network itself rather than its wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from flagperf.contract.target import check_target
from flagperf.trainer.pytorch.loading import on_device
from flagperf.trainer.pytorch.parts import Parts


def evaluate(parts: Parts, progress: Callable[[], None]) -> dict[str, float]:
    """Metrics of the network on the evaluation data, the same on every rank. Calls `progress` once a batch.

    Raises:
        ConfigError: the metric of the target is not among the metrics.
    """
    network = parts.evaluated
    assert parts.datasets.eval_loader is not None  # or no setting asks for an evaluation
    parts.world.copy_buffers(network)
    batches = on_device(parts.datasets.eval_loader, parts.to_device, parts.device)
    network.eval()
    with torch.no_grad(), parts.precision.autocast, parts.strategy.evaluating(network):
        metrics = parts.task.evaluate(network, _watched(batches, progress), parts.device)
    network.train()
    metrics = parts.strategy.agreed(metrics)
    check_target(parts.settings.target, metrics)
    return metrics


def _watched(batches: Iterator[Any], progress: Callable[[], None]) -> Iterator[Any]:
    for batch in batches:
        progress()
        yield batch
