"""Counts the floating-point operations of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flagperf.trainer.data.batches import EndlessBatches
from flagperf.trainer.pytorch.build import uncompiled
from flagperf.trainer.pytorch.by_version import flop_counter, plain_attention
from flagperf.trainer.pytorch.loading import Seeded
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.task import Task


def first_batch(dataset: Any, batches: EndlessBatches) -> Any:
    """The first batch of the first epoch, loaded in this process."""
    batches.start_at(epoch=1, step=0)
    seeded = Seeded(dataset)
    return seeded.collate(seeded.__getitems__(next(iter(batches))))


def count_forward(task: Task, network: nn.Module, batch: Any, precision: Precision) -> tuple[float | None, str | None]:
    """Operations of one forward pass over the batch; or None, and the reason.

    The network runs in training mode, since some networks take uncounted shortcuts in evaluation, and with plain
    attention, since fused kernels are not counted. Random numbers are drawn and running statistics
    updated: call it after training.
    """
    for module in network.modules():
        if isinstance(module, nn.SyncBatchNorm):
            module.eval()  # other ranks do not take part
    counter = flop_counter()
    try:
        with torch.no_grad(), uncompiled(), plain_attention(), counter, precision.autocast:
            task.loss(network, batch)
    except RuntimeError as error:  # such as plain attention needing more memory than there is
        return None, f"operations could not be counted: {str(error).splitlines()[0]}"
    return float(counter.get_total_flops()), None
