"""Evaluation: the task's metrics over the whole job, on the network itself rather than its wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from flagperf.errors import ConfigError
from flagperf.target import Target
from flagperf.trainer.pytorch.loading import on_device
from flagperf.trainer.pytorch.parts import Parts


def evaluate(parts: Parts, progress: Callable[[], None]) -> dict[str, float]:
    """Metrics of the network on the evaluation data, the same on every rank. Calls `progress` once a batch.

    Raises:
        ConfigError: the metric of the target is not among the metrics.
    """
    network, target = parts.evaluated, parts.settings.target
    assert parts.datasets.eval_loader is not None  # or no setting asks for an evaluation
    parts.world.copy_buffers(network)
    batches = on_device(parts.datasets.eval_loader, parts.to_device, parts.device)
    network.eval()
    with torch.no_grad(), parts.precision.autocast:
        metrics = parts.task.evaluate(network, _watched(batches, progress), parts.device)
    network.train()
    if target is not None:
        _check(target, metrics)
    return metrics


def _check(target: Target, metrics: Mapping[str, float]) -> None:
    for name in target.values:
        if name not in metrics:
            raise ConfigError(
                "the evaluation gives no such metric",
                where="config.yaml",
                key="target.metric" if name == target.metric else "target.also",
                given=name,
                allowed=", ".join(metrics),
            )


def _watched(batches: Iterator[Any], progress: Callable[[], None]) -> Iterator[Any]:
    for batch in batches:
        progress()
        yield batch
