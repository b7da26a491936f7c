"""Does a vendor's own code do what the case does? The reduced case is trained twice, without it and with it.

Both begin with the same weights, in fp32, on one device. What is compared: the network by its parameters, the
batches, the loss of each step, the weights at the end, an evaluation with the same weights; and an optimizer of the
vendor's with the case's, on the same gradients.
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
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.device import device_name, open_device
from flagperf.trainer.pytorch.differences import difference, largest, metric_difference, norm_of_difference, tensors
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.randomness import seed_all
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.short_training import Side, State, load, steps, trained
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.start.extension import extended, extension, import_modules, renaming, without_extension

IN_FP32 = {"precision": "fp32", "compile": False, "sync_bn": False, "ema": {"decay": None, "every": 1}}
ROUNDING = 4 * torch.finfo(torch.float32).eps  # of a weight in some steps: two ways to compute the same differ by it


def prove(config: Mapping[str, Any]) -> dict[str, Any]:
    """What sets the vendor's own code apart from the case's.

    Returns:
        `other_network`: in words, where it has or trains other parameters; else `differences`, each relative to the
        case's own: `batches`, `loss`, `weights`, `buffers`, `evaluation` and, where it is replaced, `optimizer`.
        Further `optimizer`: its class and where its step is from; `same_modules`: whether all modules of the network
        are the case's; `classes`: of the vendor's network; `steps`, `device`, `versions`.
    """
    config = {**config, **IN_FP32}
    world = World.of()
    device = open_device(config["vendor"], world)
    own = trained(without_extension(config), world, device, None)
    import_modules(config)
    told = {
        "steps": len(own.losses),
        "device": device_name(device),
        "versions": versions(config, config["vendor"]["plugin"], {"torch": torch.__version__}),
    }
    seed_all(config["seed"])
    vendors = extended(config)
    if other := other_parameters(vendors, world, device, own):
        return {**told, "other_network": other}
    found = trained(vendors, world, device, own)
    if other := other_training(own, found):
        return {**told, "other_network": other}
    differences = differences_of(own, found)
    if "optimizer" in (extension(config).get("replace") or {}):
        differences["optimizer"] = compare_optimizers(config, own, device)
    return {
        **told,
        "differences": differences,
        "optimizer": {name: found.optimizer[name] for name in ("class", "step")},
        "same_modules": found.classes == own.classes,
        "classes": sorted(found.classes),
    }


def other_parameters(config: Mapping[str, Any], world: World, device: torch.device, own: Side) -> str:
    """What sets the parameters and buffers of the vendor's network apart, in words; "" where they are the case's."""
    settings, rename = Settings.read(config), renaming(config)
    made = build_network(config, settings, component(config, "task"), device, world).state_dict()
    here = {rename(name): list(tensor.shape) for name, tensor in made.items()}
    wanted = {name: list(tensor.shape) for name, tensor in own.initial.items()}
    differing = [name for name in {**wanted, **here} if here.get(name) != wanted.get(name)]
    if not differing:
        return ""
    first = differing[0]
    said = f"{first} is {here.get(first, 'not there')}, the case has {wanted.get(first, 'no such')}"
    return f"{said}; {len(differing)} parameters and buffers differ"


def other_training(own: Side, found: Side) -> str:
    """Which parameters only one of the two trainings changed, in words; "" where they are the same."""

    def stays(side: Side, name: str) -> bool:
        return torch.equal(side.initial[name], side.final[name])

    unlike = [name for name in own.weights if stays(own, name) != stays(found, name)]
    if not unlike:
        return ""
    which = "the vendor's" if stays(found, unlike[0]) else "the case's"
    return f"{unlike[0]} stays as it is in {which}; {len(unlike)} parameters do so"


def differences_of(own: Side, found: Side) -> dict[str, float]:
    """How far two trainings differ, each relative to the first."""
    ours, theirs = list(tensors(own.batches)), list(tensors(found.batches))
    buffers = [name for name in own.final if name not in own.weights]
    return {
        "batches": largest(map(difference, ours, theirs)) if len(ours) == len(theirs) else float("inf"),
        "loss": largest(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(own.losses, found.losses)),
        "weights": norm_of_difference(own.weights, own.final, found.final),
        "buffers": largest(difference(own.final[name], found.final[name]) for name in buffers),
        "evaluation": metric_difference(own.metrics, found.metrics),
    }


# ---------------------------------------------------------------- optimizers on the same gradients


def compare_optimizers(config: Mapping[str, Any], own: Side, device: torch.device) -> float:
    """Largest difference of the updates that the case's optimizer and the vendor's make from the same gradients.

    Each with the case's own network, both with the gradients of the first. The first step has no gradients and a
    learning rate of 1: it is made of what the optimizer does by itself, such as weight decay, however small that is.
    """
    settings, world = Settings.read(config), World.of()
    task: Task = component(config, "task")
    first = build_network(without_extension(config), settings, task, device, world)
    load(first, own.initial, lambda name: name)
    second = copy.deepcopy(first)
    pairs = [
        (network, component(given, "optimizer", task.parameters(network)))
        for network, given in ((first, config), (second, extended(config)))
    ]
    found = alone(pairs)
    before = {name: parameter.detach().clone() for name, parameter in first.named_parameters()}
    stepped = steps(first, pairs[0][1], task, own.batches, settings, device, Precision("fp32", device))
    for _ in stepped:
        copy_gradients(first, second)
        pairs[1][1].step()
    return largest([found, update_difference(before, first, second)])


def alone(pairs: Sequence[tuple[nn.Module, Optimizer]]) -> float:
    """Difference of one step without gradients, at a learning rate of 1, which is set back."""
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
    return update_difference(before, first, second)


def copy_gradients(source: nn.Module, target: nn.Module) -> None:
    """Give the parameters of one network the gradients of another one of the same kind."""
    for one, other in zip(source.parameters(), target.parameters()):
        other.grad = None if one.grad is None else one.grad.detach().clone()


def update_difference(before: State, first: nn.Module, second: nn.Module) -> float:
    """Largest difference of two updates over all tensors, relative to the first; rounding of weights is left out."""
    others = dict(second.named_parameters())
    found = []
    for name, parameter in first.named_parameters():
        here, there, was = parameter.detach(), others[name].detach(), before[name]
        beyond = (here - there).abs().max() - ROUNDING * was.abs().max()
        found.append(float(beyond.clamp(min=0) / (here - was).abs().max().clamp(min=1e-12)))
    return largest(found)
