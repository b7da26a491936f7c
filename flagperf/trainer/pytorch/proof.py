"""Compares a vendor's own code with the case's: trains the reduced case twice, without and with the vendor's code.

Both trainings begin with the same weights, in fp32, on one device. The proof compares the parameters of the network,
the batches, the loss of each step, the weights at the end, and an evaluation with the same weights. It also compares
the vendor's optimizer with the case's, on the same gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.trainer.identity.software import versions
from flagperf.trainer.pytorch.adapter import trained_parameters
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.device import device_name, open_device
from flagperf.trainer.pytorch.differences import difference, largest, metric_difference, norm_of_difference, tensors
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.randomness import seed_all
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.short_training import Side, State, load, steps, trained
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.start.extension import (
    apply_extension,
    extension,
    import_modules,
    parameter_renaming,
    without_extension,
)

IN_FP32 = {"precision": "fp32", "compile": False, "sync_bn": False, "ema": {"decay": None, "every": 1}}
ROUNDING = 4 * torch.finfo(torch.float32).eps  # relative difference of a weight by rounding, after some steps


def prove(config: Mapping[str, Any]) -> dict[str, Any]:
    """The differences between the vendor's own code and the case's.

    Returns:
        `other_network`: a text, where the vendor's network has or trains other parameters; else `differences`, each
        relative to the case's value: `batches`, `loss`, `weights`, `buffers`, `evaluation` and, where it is replaced,
        `optimizer`. Further `optimizer`: its class and the module of its step; `same_modules`: whether all modules of
        the network are the case's; `classes`: of the vendor's network; `steps`, `device`, `versions`.
    """
    config = {**config, **IN_FP32}
    world = World.of()
    device = open_device(config["vendor"], world)
    case = trained(without_extension(config), world, device, None)
    import_modules(config)
    facts = {
        "steps": len(case.losses),
        "device": device_name(device),
        "versions": versions(config, config["vendor"]["plugin"], {"torch": torch.__version__}),
    }
    seed_all(config["seed"])
    vendor_config = apply_extension(config)
    if other := _other_parameters(vendor_config, world, device, case):
        return {**facts, "other_network": other}
    vendor = trained(vendor_config, world, device, case)
    if other := _other_training(case, vendor):
        return {**facts, "other_network": other}
    differences = _differences(case, vendor)
    if "optimizer" in (extension(config).get("replace") or {}):
        differences["optimizer"] = _compare_optimizers(config, case, device)
    return {
        **facts,
        "differences": differences,
        "optimizer": {name: vendor.optimizer[name] for name in ("class", "step")},
        "same_modules": vendor.classes == case.classes,
        "classes": sorted(vendor.classes),
    }


def _other_parameters(config: Mapping[str, Any], world: World, device: torch.device, case: Side) -> str:
    """How parameters and buffers of the vendor's network differ from the case's; "" where they do not."""
    settings, rename = Settings.read(config), parameter_renaming(config)
    built = build_network(config, settings, component(config, "task"), device, world).state_dict()
    here = {rename(name): list(tensor.shape) for name, tensor in built.items()}
    wanted = {name: list(tensor.shape) for name, tensor in case.initial.items()}
    differing = [name for name in {**wanted, **here} if here.get(name) != wanted.get(name)]
    if not differing:
        return ""
    first = differing[0]
    text = f"{first} is {here.get(first, 'not there')}, the case has {wanted.get(first, 'no such')}"
    return f"{text}; {len(differing)} parameters and buffers differ"


def _other_training(case: Side, vendor: Side) -> str:
    """The parameters that only one of the two trainings changed, as a text; "" where there are none."""

    def stays(side: Side, name: str) -> bool:
        return torch.equal(side.initial[name], side.final[name])

    unlike = [name for name in case.weights if stays(case, name) != stays(vendor, name)]
    if not unlike:
        return ""
    owner = "the vendor's" if stays(vendor, unlike[0]) else "the case's"
    return f"{unlike[0]} stays as it is in {owner}; {len(unlike)} parameters do so"


def _differences(case: Side, vendor: Side) -> dict[str, float]:
    """The differences of two trainings, relative to the case's."""
    ours, theirs = list(tensors(case.batches)), list(tensors(vendor.batches))
    buffers = [name for name in case.final if name not in case.weights]
    return {
        "batches": largest(map(difference, ours, theirs)) if len(ours) == len(theirs) else float("inf"),
        "loss": largest(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(case.losses, vendor.losses)),
        "weights": norm_of_difference(case.weights, case.final, vendor.final),
        "buffers": largest(difference(case.final[name], vendor.final[name]) for name in buffers),
        "evaluation": metric_difference(case.metrics, vendor.metrics),
    }


# ---------------------------------------------------------------- optimizers on the same gradients


def _compare_optimizers(config: Mapping[str, Any], case: Side, device: torch.device) -> float:
    """Largest difference of the updates that the case's optimizer and the vendor's make from the same gradients.

    Each optimizer has a copy of the case's network, and both get the gradients of the first copy. The first step has no
    gradients and a learning rate of 1: it shows the optimizers' other updates, such as weight decay, however small.
    """
    settings, world = Settings.read(config), World.of()
    task: Task = component(config, "task")
    first = build_network(without_extension(config), settings, task, device, world)
    load(first, case.initial, lambda name: name)
    second = copy.deepcopy(first)
    pairs = [
        (network, component(given, "optimizer", trained_parameters(task, network)))
        for network, given in ((first, config), (second, apply_extension(config)))
    ]
    without_gradients = _step_without_gradients(pairs)
    before = {name: parameter.detach().clone() for name, parameter in first.named_parameters()}
    stepped = steps(first, pairs[0][1], task, case.batches, settings, device, Precision("fp32", device))
    for _ in stepped:
        _copy_gradients(first, second)
        pairs[1][1].step()
    return largest([without_gradients, _update_difference(before, first, second)])


def _step_without_gradients(pairs: Sequence[tuple[nn.Module, Optimizer]]) -> float:
    """Difference of one step without gradients at a learning rate of 1. Restores the learning rates."""
    (first, _), (second, _) = pairs
    before = {name: parameter.detach().clone() for name, parameter in first.named_parameters()}
    for network, optimizer in pairs:
        rates = [group["lr"] for group in optimizer.param_groups]
        for parameter in network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        for group in optimizer.param_groups:
            group["lr"] = 1.0
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate
    return _update_difference(before, first, second)


def _copy_gradients(source: nn.Module, target: nn.Module) -> None:
    """Copy the gradients of a network to another network of the same kind."""
    for parameter, copied in zip(source.parameters(), target.parameters()):
        copied.grad = None if parameter.grad is None else parameter.grad.detach().clone()


def _update_difference(before: State, first: nn.Module, second: nn.Module) -> float:
    """Largest difference of two updates over all tensors, relative to the first, beyond the rounding of weights."""
    others = dict(second.named_parameters())
    differences = []
    for name, parameter in first.named_parameters():
        here, there, was = parameter.detach(), others[name].detach(), before[name]
        beyond = (here - there).abs().max() - ROUNDING * was.abs().max()
        differences.append(float(beyond.clamp(min=0) / (here - was).abs().max().clamp(min=1e-12)))
    return largest(differences)
