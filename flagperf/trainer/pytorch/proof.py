"""Does a vendor's own code do what the case does? The reduced case is trained twice, without it and with it.

Both begin with the same weights, in fp32, on one device. What is compared: the network by its parameters, the
batches, the loss of each step, the weights at the end; and an optimizer of the vendor's with the case's, on the same
gradients.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Dict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flagperf.trainer.components import component
from flagperf.trainer.extension import Rename, extended, extension, import_modules, renaming, without_extension
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.datasets import open_datasets
from flagperf.trainer.pytorch.device import device_name, open_device
from flagperf.trainer.pytorch.fingerprint import fingerprint
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.randomness import choose_algorithms, seed_all
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.recipe import optimizer_of
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.settings import Settings
from flagperf.trainer.software import versions

STEPS = 20
IN_FP32 = {"precision": "fp32", "compile": False, "sync_bn": False, "ema": {"decay": None, "every": 1}}
ROUNDING = 4 * torch.finfo(torch.float32).eps  # of a weight in some steps: two ways to compute the same differ by it

State = Dict[str, Tensor]  # by the case's names


@dataclass(frozen=True)
class Side:
    """One of the two trainings. Names are the case's."""

    weights: Sequence[str]  # names of its parameters; what else is in a state are buffers
    network: Mapping[str, Any]  # its fingerprint
    optimizer: Mapping[str, Any]  # as BUILT has it
    initial: State  # weights and buffers, on the host
    final: State
    batches: Sequence[Any]  # on the host
    losses: Sequence[float]


def prove(config: Mapping[str, Any]) -> dict[str, Any]:
    """What sets the vendor's own code apart from the case's.

    Returns:
        `other_network`: in words, where it has or trains other parameters; else `differences`, each relative to the
        case's own: `batches`, `loss`, `weights`, `buffers` and, where it is replaced, `optimizer`. Further
        `optimizer`: its class and where its step is from; `same_modules`: whether all modules of the network are the
        case's; `steps`, `device`, `versions`.
    """
    config = {**config, **IN_FP32}
    world = World.of()
    device = open_device(config["vendor"], world)
    own = trained(without_extension(config), world, device, None)
    import_modules(config)
    told = {
        "steps": STEPS,
        "device": device_name(device),
        "versions": versions(config, config["vendor"]["plugin"], {"torch": torch.__version__}),
    }
    seed_all(config["seed"])
    vendors = extended(config)
    if other := other_parameters(vendors, world, device, own):
        return {**told, "other_network": other}
    found = trained(vendors, world, device, own.initial)
    if unlike := [name for name in own.weights if stays(own, name) != stays(found, name)]:
        which = "the vendor's" if stays(found, unlike[0]) else "the case's"
        return {**told, "other_network": f"{unlike[0]} stays as it is in {which}; {len(unlike)} parameters do so"}
    one, other = list(tensors(own.batches)), list(tensors(found.batches))
    differences = {
        "batches": largest(map(difference, one, other)) if len(one) == len(other) else float("inf"),
        "loss": largest(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(own.losses, found.losses)),
        "weights": norm_of_difference(own.weights, own.final, found.final),
        "buffers": largest(
            difference(tensor, found.final[name]) for name, tensor in own.final.items() if name not in own.weights
        ),
    }
    if "optimizer" in (extension(config).get("replace") or {}):
        differences["optimizer"] = compare_optimizers(config, own, device)
    return {
        **told,
        "differences": differences,
        "optimizer": {name: found.optimizer[name] for name in ("class", "step")},
        "same_modules": found.network["classes"] == own.network["classes"],
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


# ---------------------------------------------------------------- two trainings


def trained(config: Mapping[str, Any], world: World, device: torch.device, initial: State | None) -> Side:
    """Train some steps. `initial`: weights to begin with, by the case's names; None: those of the seed."""
    settings, rename = Settings.read(config), renaming(config)
    choose_algorithms(settings)
    precision = Precision(settings.precision, device)
    datasets = open_datasets(config, settings, world, device)
    try:
        batches = list(itertools.islice(datasets.train_loader, STEPS))
    finally:
        datasets.close()
    seed_all(settings.seed)
    task: Task = component(config, "task")
    network = build_network(config, settings, task, device, world)
    if initial is not None:
        load(network, initial, rename)
    optimizer: Optimizer = component(config, "optimizer", task.parameters(network))
    built = optimizer_of(optimizer, network, rename)
    before = state(network, rename)
    losses = [loss for loss, _ in steps(network, optimizer, task, batches, settings, device, precision)]
    weights = [rename(name) for name, _ in network.named_parameters()]
    return Side(weights, fingerprint(network, rename), built, before, state(network, rename), batches, losses)


def steps(
    network: nn.Module,
    optimizer: Optimizer,
    task: Task,
    batches: Iterable[Any],
    settings: Settings,
    device: torch.device,
    precision: Precision,
) -> Iterator[tuple[float, int]]:
    """Train on batches: loss and number of each step, whose gradients are still there. Nothing is dropped out."""
    network.train()
    for module in network.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, batch in enumerate(batches):
        seed_all(settings.seed + number)
        optimizer.zero_grad()
        loss = task.loss(network, task.to_device(batch, device, torch.contiguous_format))
        precision.backward(loss, 1)
        precision.step(optimizer, parameters, settings.clip_grad)
        yield float(loss.detach()), number


def state(network: nn.Module, rename: Rename) -> dict[str, Tensor]:
    """A copy of weights and buffers on the host, by the case's names."""
    return {rename(name): tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}


def load(network: nn.Module, given: State, rename: Rename) -> None:
    """Fill the network with weights and buffers that have the case's names."""
    network.load_state_dict({name: given[rename(name)] for name in network.state_dict()})


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


# ---------------------------------------------------------------- differences


def tensors(node: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and mappings."""
    if isinstance(node, Tensor):
        yield node
    for item in node.values() if isinstance(node, Mapping) else node if isinstance(node, (list, tuple)) else ():
        yield from tensors(item)


def difference(a: Tensor, b: Tensor) -> float:
    """Largest difference of two tensors, relative to the largest number of the first; endless for other shapes."""
    if a.shape != b.shape:
        return float("inf")
    a, b = a.detach().cpu().double(), b.detach().cpu().double()
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-12)) if a.numel() else 0.0


def norm_of_difference(names: Iterable[str], a: State, b: State) -> float:
    """Euclidean norm of the difference of all numbers of some tensors, relative to that of the first."""
    squares = [(a[name].double().square().sum(), (a[name].double() - b[name]).square().sum()) for name in names]
    whole, differing = (float(sum(values)) for values in zip(*squares))
    return float((differing / max(whole, 1e-12)) ** 0.5)


def stays(side: Side, name: str) -> bool:
    """Whether the training left a tensor as it was."""
    return torch.equal(side.initial[name], side.final[name])


def largest(values: Iterable[float]) -> float:
    """The largest value; endless where one is no number, 0 where there is none."""
    found = list(values)
    return float("inf") if any(value != value for value in found) else max(found, default=0.0)
