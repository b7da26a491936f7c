"""The parts of one training on one rank, made from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.target import check_target
from flagperf.trainer.data.same_data import check_same_data
from flagperf.trainer.pytorch.adapter import trained_parameters
from flagperf.trainer.pytorch.build import (
    build_network,
    build_without_weights,
    divides_before_filling,
    load_initial,
    make_average,
)
from flagperf.trainer.pytorch.checksum import frozen_checksum
from flagperf.trainer.pytorch.compile_cache import use_own_compile_cache
from flagperf.trainer.pytorch.datasets import Datasets, load_datasets
from flagperf.trainer.pytorch.device import forget_peak, open_device
from flagperf.trainer.pytorch.parallel import Strategy, make_strategy
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.randomness import choose_algorithms, seed_all
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.task import Task

if TYPE_CHECKING:
    from torch.optim.swa_utils import AveragedModel


@dataclass
class Parts:
    """The parts of a training, in the order in which they are made."""

    config: Mapping[str, Any]
    settings: Settings
    world: World
    strategy: Strategy  # by which the ranks share the work
    device: torch.device
    datasets: Datasets
    rendezvous: float  # seconds until this rank had joined the others
    precision: Precision
    task: Task
    undivided: nn.Module  # the network before its division over ranks, or a copy with shapes only
    network: nn.Module  # the network, or this rank's part of it
    average: AveragedModel | None  # of the network's weights, where the settings ask for one
    optimizer: Optimizer
    scheduler: Any  # a learning rate scheduler, or None
    frozen: str | None  # checksum of the frozen weights at the start, where the network has adapters

    def __post_init__(self) -> None:
        self.parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        self.memory_format = getattr(torch, self.settings.memory_format)

    @property
    def evaluated(self) -> nn.Module:
        """The network that is evaluated."""
        return self.network if self.average is None else self.average.module

    def update_average(self, step: int) -> None:
        """Update the moving average after an optimizer step, where the settings ask for it."""
        if self.average is not None and step % self.settings.ema.every == 0:
            self.average.update_parameters(self.network)

    def to_device(self, batch: Any) -> Any:
        """A batch on the device, in the memory format of the network."""
        return self.task.to_device(batch, self.device, self.memory_format)

    def wrapped(self) -> nn.Module:
        """The network that the training step calls; compiled, if the settings say so."""
        model = self.strategy.wrapped(self.network, self.device)
        if not self.settings.compile or self.settings.compile_modules is not None:
            return model
        use_own_compile_cache()
        return torch.compile(model)  # type: ignore[return-value]


def build_parts(config: Mapping[str, Any]) -> Parts:
    """Open the data, join the other ranks and make all other parts.

    Raises:
        ConfigError: the configuration cannot be used here, or the data is not the same on all ranks.
    """
    settings, world = Settings.read(config), World.of()
    device = open_device(config["vendor"], world)
    strategy = make_strategy(config, settings, world)
    rank_seed = settings.seed + 1 + strategy.share.rank  # ranks that compute together drop out the same
    seed_all(rank_seed)
    datasets = load_datasets(config, settings, strategy.share, device)  # forks processes, so before the process group
    began = perf_counter()
    world.connect(device, config["vendor"]["backend"], settings.process_group_timeout, alone=strategy.needs_group)
    rendezvous = perf_counter() - began
    check_same_data(config, world, datasets.counts, getattr(datasets.train, "classes", None))
    choose_algorithms(settings)
    precision = Precision(settings.precision, device)

    seed_all(settings.seed)  # the same weights on every rank
    task: Task = component(config, "task")
    if task.metrics is not None:
        check_target(settings.target, task.metrics)
    undivided, network, average = divided_network(config, settings, task, strategy, device, world)
    forget_peak(device)  # of the undivided network
    task.group = strategy.summing()
    optimizer = component(config, "optimizer", trained_parameters(task, network))
    scheduler = component(config, "lr_scheduler", optimizer)
    seed_all(rank_seed)  # dropout differs from rank to rank
    return Parts(
        config,
        settings,
        world,
        strategy,
        device,
        datasets,
        rendezvous,
        precision,
        task,
        undivided,
        network,
        average,
        optimizer,
        scheduler,
        frozen_checksum(network, strategy, world),
    )


def divided_network(
    config: Mapping[str, Any], settings: Settings, task: Task, strategy: Strategy, device: torch.device, world: World
) -> tuple[nn.Module, nn.Module, AveragedModel | None]:
    """The network before its division, or its shapes; this rank's part of it; and the part of a moving average.

    Where it is possible, the network is divided before it has its weights, and each rank makes its part of them.
    """
    initial = None
    if strategy.divides and divides_before_filling(config, settings):
        network, initial = build_without_weights(config, settings, device, world)
    else:
        network = build_network(config, settings, task, device, world)
    undivided = strategy.undivided(network)
    average = make_average(network, settings, partial(strategy.divided, device=device))
    network = strategy.divided(network, device)
    if initial is not None:
        for unfilled in (network, *(() if average is None else (average.module,))):
            initial.fill(unfilled, device)
            load_initial(unfilled, task, config, settings, undivided)
    return undivided, network, average
