"""The parts of one training on one rank, made from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from flagperf.errors import ConfigError
from flagperf.trainer.components import component
from flagperf.trainer.pytorch.build import averaged, build_network, distribute
from flagperf.trainer.pytorch.data import TrainBatches, eval_batches, loader
from flagperf.trainer.pytorch.device import open_device
from flagperf.trainer.pytorch.precision import Precision
from flagperf.trainer.pytorch.randomness import choose_algorithms, seed_all
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.synthetic import HeldBatches
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.settings import Settings

if TYPE_CHECKING:
    from torch.optim.swa_utils import AveragedModel


@dataclass
class Parts:
    """What the loop works with; the fields are in the order in which they are made."""

    config: Mapping[str, Any]
    settings: Settings
    world: World
    device: torch.device
    precision: Precision
    task: Task
    network: nn.Module  # itself: evaluated, saved
    average: AveragedModel | None  # of the network, where the settings ask for one: evaluated in its place, saved
    optimizer: Optimizer
    scheduler: Any  # a learning rate scheduler, or None
    train_data: Any
    train_batches: TrainBatches
    eval_data: Any  # or None
    rendezvous: float  # seconds in which this rank joined the others

    def __post_init__(self) -> None:
        self.parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        self.memory_format = getattr(torch, self.settings.memory_format)

    @cached_property
    def eval_loader(self) -> DataLoader[Any]:
        """This rank's share of the evaluation data, for every evaluation."""
        share = eval_batches(len(self.eval_data), self.settings.eval_batch_size, self.world)
        return loader(self.eval_data, share, self.settings.num_workers, self.device, again=True)

    @property
    def evaluated(self) -> nn.Module:
        """The network that is evaluated."""
        return self.network if self.average is None else self.average.module

    def update_average(self, step: int) -> None:
        """After an optimizer step: let the average follow the network, where it is due."""
        if self.average is not None and step % self.settings.ema.every == 0:
            self.average.update_parameters(self.network)

    def to_device(self, batch: Any) -> Any:
        """A batch as the network takes it."""
        return self.task.to_device(batch, self.device, self.memory_format)

    def wrapped(self) -> tuple[nn.Module, nn.Module]:
        """The network with its gradients averaged over the ranks, and that compiled where the settings say so."""
        distributed = distribute(self.network, self.settings, self.device, self.world)
        if self.settings.compile:
            return distributed, torch.compile(distributed)  # type: ignore[return-value]
        return distributed, distributed


def build_parts(config: Mapping[str, Any]) -> Parts:
    """Join the other ranks and make all parts.

    Raises:
        ConfigError: the configuration cannot be used here.
    """
    settings, world = Settings.read(config), World.of()
    device = open_device(config["vendor"], world)
    began = perf_counter()
    world.connect(device, config["vendor"]["backend"], settings.process_group_timeout)
    rendezvous = perf_counter() - began
    choose_algorithms(settings)
    precision = Precision(settings.precision, device)

    seed_all(settings.seed)  # the same weights on every rank
    task: Task = component(config, "task")
    network = build_network(config, settings, task, device, world)
    average = averaged(network, settings)
    optimizer = component(config, "optimizer", task.parameters(network))
    scheduler = component(config, "lr_scheduler", optimizer)
    seed_all(settings.seed + 1 + world.rank)  # dropout differs from rank to rank

    train_data = component(config, "train_data")
    sampler = HeldBatches if settings.synthetic else TrainBatches
    batches = sampler(train_data, settings.train_batch_size, settings.gradient_accumulation_steps, world, settings.seed)
    eval_data = None if settings.synthetic else component(config, "eval_data")
    check_classes(train_data, eval_data)
    return Parts(
        config,
        settings,
        world,
        device,
        precision,
        task,
        network,
        average,
        optimizer,
        scheduler,
        train_data,
        batches,
        eval_data,
        rendezvous,
    )


def check_classes(train_data: Any, eval_data: Any) -> None:
    """Refuse an evaluation on other classes than the training's, where the data sets name theirs in `classes`.

    Folders are numbered in the order of their names: one that a split lacks would shift the labels of all that follow.
    """
    trained, evaluated = (getattr(data, "classes", None) for data in (train_data, eval_data))
    if trained is None or evaluated is None or list(trained) == list(evaluated):
        return
    parts = {
        "missing in the evaluation data": [str(name) for name in trained if name not in evaluated],
        "missing in the training data": [str(name) for name in evaluated if name not in trained],
    }
    found = [
        f"{len(names)} {where}: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
        for where, names in parts.items()
        if names
    ]
    raise ConfigError(
        "training and evaluation data have different classes",
        where=str(getattr(eval_data, "root", "config.yaml")),
        key="data_dir",
        given="; ".join(found) or "the same classes in another order",
        allowed="the same classes in both splits",
    )
