"""Figures of a rank that only PyTorch knows, after a training."""

from __future__ import annotations

from typing import Any

from flagperf.trainer.loop.trained import FrameworkFigures
from flagperf.trainer.pytorch.checksum import checksum, frozen_checksum
from flagperf.trainer.pytorch.device import peak_allocated, peak_memory
from flagperf.trainer.pytorch.fingerprint import example_operations
from flagperf.trainer.pytorch.flops import count_forward, first_batch
from flagperf.trainer.pytorch.parts import Parts


def framework_figures(parts: Parts) -> FrameworkFigures:
    """Figures of the network and the device of this rank. Only rank 0 counts operations."""
    memory, memory_kind = peak_memory(parts.device)
    return FrameworkFigures(
        parameters=sum(parameter.numel() for parameter in parts.undivided.parameters()),
        parameters_checksum=checksum(parts.strategy.held(parts.network)),
        parameters_group=parts.strategy.mesh.part(parts.world.rank),
        frozen_checksum=frozen_checksum(parts.network, parts.strategy, parts.world),
        peak_memory=memory,
        peak_memory_kind=memory_kind,
        peak_allocated=peak_allocated(parts.device),
        forward=_forward_operations(parts) if parts.world.rank == 0 else {},
        formula=parts.task.formula(parts.undivided, parts.config),
    )


def _forward_operations(parts: Parts) -> dict[str, Any]:
    """Operations of one forward pass over the task's example, and over the first batch per sample and per unit.

    Where they cannot be counted: notes with the reason.
    """
    network = parts.undivided
    example, note = example_operations(parts.task, network, parts.config, parts.precision)
    counted = {"example": example, "example_note": note}
    batch = first_batch(parts.datasets.train, parts.datasets.train_batches)
    device = next(network.parameters()).device
    moved = parts.task.to_device(batch, device, parts.memory_format)
    operations, note = count_forward(parts.task, network, moved, parts.precision)
    if operations is None:
        return {**counted, "note": note}
    return {
        **counted,
        "per_sample": operations / parts.task.samples(batch),
        "per_unit": operations / parts.task.units(batch),
    }
