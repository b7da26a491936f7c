"""The identity of a network: its tensors, its modules, and the operations of one forward pass.

Precision, memory format, compilation, activation checkpointing, batch norm over all ranks, an average of the weights
and the wrapper that averages gradients do not change it: a closed run may choose them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from flagperf.trainer.identity.network import network_identity
from flagperf.trainer.pytorch import float8
from flagperf.trainer.pytorch.by_version import newest_name
from flagperf.trainer.pytorch.flops import count_forward
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.start.extension import Rename

BATCH_NORM = "torch.nn.modules.batchnorm"


def fingerprint(network: nn.Module, rename: Rename = str) -> dict[str, Any]:
    """Number of parameters, digests of tensors and modules, and how many modules there are of each class.

    Buffers outside of checkpoints do not count: they are constants, and differ between versions of a library. Tied
    parameters count under each of their names, since a move to a device may separate them.

    Args:
        rename: the network's name of a tensor → the case's name.
    """
    parameters = [(name, "parameter", tensor) for name, tensor in network.named_parameters(remove_duplicate=False)]
    saved = network.state_dict(keep_vars=True).keys()
    buffers = [(name, "buffer", tensor) for name, tensor in network.named_buffers() if name in saved]
    tensors = ((rename(name), kind, tensor) for name, kind, tensor in parameters + buffers)
    modules = ((name, class_identity(type(module))) for name, module in network.named_modules())
    return network_identity(sum(parameter.numel() for parameter in network.parameters()), tensors, modules)


def class_identity(kind: type) -> str:
    """Module and name of a class. Batch norm of any dimension, over one rank or over all, is one class.

    A linear layer that multiplies in float8 is a linear layer.
    """
    if f"{kind.__module__}.{kind.__qualname__}" == float8.LAYER:
        return class_identity(nn.Linear)
    return f"{BATCH_NORM}.BatchNorm" if kind.__module__ == BATCH_NORM else newest_name(kind)


def example_operations(
    task: Task, network: nn.Module, config: Mapping[str, Any], precision: Precision
) -> tuple[float | None, str | None]:
    """Operations of one forward pass over the task's example, per sample; or None, and the reason.

    They are counted by shapes alone, or on the CPU where a network reads values, as detectors do: the count must not
    depend on a device and its kernels. The network itself does not change.
    """
    try:
        example = task.example(config)
    except KeyError as error:
        return None, f"the case has no key {error}, which its task's example needs"
    if example is None:
        return None, "the task has no example"
    notes: list[str] = []
    for device in (torch.device("meta"), torch.device("cpu")):
        try:
            batch = task.to_device(example, device, torch.contiguous_format)
            operations, note = count_forward(task, copied(network, device), batch, precision)
        except Exception as error:  # networks raise any error where values are missing
            operations, note = None, f"operations could not be counted: {type(error).__name__}: {error}"
        if operations is not None:
            return operations / task.samples(example), None
        notes += [f"{note} (by shapes alone)" if device.type == "meta" else str(note)]
    return None, "; ".join(notes)


def copied(network: nn.Module, device: torch.device) -> nn.Module:
    """A copy of the network on another device; on "meta" with shapes only."""
    moved: dict[int, Any] = {}
    for tensor in (*network.parameters(), *network.buffers()):
        other = tensor.detach().to(device, copy=True)
        moved[id(tensor)] = nn.Parameter(other, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else other
    return copy.deepcopy(network, moved)
