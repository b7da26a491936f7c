"""A short training of a reduced case and an evaluation, for a proof (proof.py)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Dict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.trainer.pytorch.adapter import trained_parameters
from flagperf.trainer.pytorch.build import build_network
from flagperf.trainer.pytorch.datasets import load_datasets
from flagperf.trainer.pytorch.fingerprint import fingerprint
from flagperf.trainer.pytorch.loading import on_device
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.randomness import choose_algorithms, seed_all
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.recipe import optimizer_of
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.start.extension import Rename, parameter_renaming

STEPS = 20

State = Dict[str, Tensor]  # by the case's names


@dataclass(frozen=True)
class Side:
    """One of the two trainings. Names are the case's."""

    weights: Sequence[str]  # names of its parameters; all other names in a state are buffers
    classes: Mapping[str, int]  # of its modules, with their numbers
    optimizer: Mapping[str, Any]  # as BUILT has it
    initial: State  # weights and buffers, on the host
    final: State
    batches: Sequence[Any]  # on the host
    losses: Sequence[float]
    metrics: Mapping[str, float]  # of an evaluation at the end; empty where the case has none


def trained(config: Mapping[str, Any], world: World, device: torch.device, like: Side | None) -> Side:
    """Train STEPS steps, and evaluate. `like`: begin and evaluate with its weights; None: with weights by the seed."""
    settings, rename = Settings.read(config), parameter_renaming(config)
    choose_algorithms(settings)
    precision = Precision(settings.precision, device)
    datasets = load_datasets(config, settings, world, device)
    try:
        batches = list(itertools.islice(datasets.train_loader, STEPS))
        seed_all(settings.seed)
        task: Task = component(config, "task")
        network = build_network(config, settings, task, device, world)
        if like is not None:
            load(network, like.initial, rename)
        optimizer: Optimizer = component(config, "optimizer", trained_parameters(task, network))
        built = optimizer_of(optimizer, network, rename)
        before = state(network, rename)
        losses = list(steps(network, optimizer, task, batches, settings, device, precision))
        after = state(network, rename)
        if like is not None:
            load(network, like.final, rename)
        seed_all(settings.seed)
        metrics = evaluated(network, task, datasets.eval_loader or (), device)
    finally:
        datasets.close()
    weights = [rename(name) for name, _ in network.named_parameters()]
    return Side(weights, fingerprint(network)["classes"], built, before, after, batches, losses, metrics)


def evaluated(network: nn.Module, task: Task, batches: Iterable[Any], device: torch.device) -> Mapping[str, float]:
    """Metrics of a network on evaluation data; empty without data."""
    network.eval()
    moved = on_device(batches, lambda batch: task.to_device(batch, device, torch.contiguous_format), device)
    with torch.no_grad():
        return task.evaluate(network, moved, device) if batches else {}


def steps(
    network: nn.Module,
    optimizer: Optimizer,
    task: Task,
    batches: Iterable[Any],
    settings: Settings,
    device: torch.device,
    precision: Precision,
) -> Iterator[float]:
    """Train on batches without dropout. Yields the loss of each step while its gradients are still there."""
    network.train()
    for module in network.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    limit = settings.clip_grad
    clip = None if limit is None else partial(nn.utils.clip_grad_norm_, parameters, limit)
    for number, batch in enumerate(batches):
        seed_all(settings.seed + number)
        optimizer.zero_grad()
        loss = task.loss(network, task.to_device(batch, device, torch.contiguous_format))
        precision.backward(loss, 1)
        precision.step(optimizer, clip)
        yield float(loss.detach())


def state(network: nn.Module, rename: Rename) -> dict[str, Tensor]:
    """A copy of weights and buffers on the host, by the case's names."""
    return {rename(name): tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}


def load(network: nn.Module, weights: State, rename: Rename) -> None:
    """Fill the network with weights and buffers that have the case's names."""
    network.load_state_dict({name: weights[rename(name)] for name in network.state_dict()})
