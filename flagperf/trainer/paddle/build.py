"""The parts of one training on one rank, made from its configuration."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import paddle
from paddle import nn

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.target import check_target
from flagperf.trainer.checkpoints.files import check_agreed
from flagperf.trainer.data.same_data import check_same_data
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.supported import PYTORCH_ONLY, check_supported
from flagperf.trainer.paddle.checkpoint import Saved, load
from flagperf.trainer.paddle.data import Data, open_data
from flagperf.trainer.paddle.device import open_device
from flagperf.trainer.paddle.ranks import World
from flagperf.trainer.paddle.task import Task
from flagperf.trainer.paddle.weights import load_weights


@dataclass(frozen=True)
class Parts:
    """What the loop works with; the fields are in the order in which they are made."""

    config: Mapping[str, Any]
    settings: Settings
    world: World
    device: str  # its type, as Paddle calls it
    saved: Saved | None  # the checkpoint that the training goes on from
    data: Data
    rendezvous: float  # seconds in which this rank joined the others
    task: Task
    network: nn.Layer
    schedule: Any  # a learning rate scheduler, or None
    optimizer: Any
    scaler: Any  # of gradients; it does something in fp16 only

    @property
    def stateful(self) -> dict[str, Any]:
        """What a checkpoint keeps; the optimizer's state has that of its schedule."""
        return {"network": self.network, "optimizer": self.optimizer, "scaler": self.scaler}


def build(config: Mapping[str, Any]) -> Parts:
    """Open the data, join the other ranks and make all other parts.

    Raises:
        ConfigError: the configuration cannot be used here.
    """
    settings, world = Settings.read(config), World.of()
    check_supported(settings, PYTORCH_ONLY, "PaddlePaddle")
    device = open_device(config["vendor"], settings, world)
    saved = None if config["resume"] is None else load(config, world)
    seed(settings.seed + 1 + world.rank)
    data = open_data(config, settings, world, saved.position if saved else Position())  # forks, so before the group
    began = perf_counter()
    world.connect(config["vendor"]["backend"], settings.process_group_timeout)
    rendezvous = perf_counter() - began
    if saved:
        check_agreed(world.gather(saved.name))
    check_same_data(config, world, data.counts)

    seed(settings.seed)  # the same weights on every rank
    task: Task = component(config, "task")
    check_target(settings.target, task.metrics)
    network: nn.Layer = component(config, "network")
    if settings.init_checkpoint is not None:
        load_weights(network, task, settings.init_checkpoint)
    schedule = component(config, "lr_scheduler", settings.lr)
    rate = settings.lr if schedule is None else schedule
    optimizer = component(config, "optimizer", learning_rate=rate, parameters=task.parameters(network))
    scaler = paddle.amp.GradScaler(enable=settings.precision == "amp_fp16")
    seed(settings.seed + 1 + world.rank)  # dropout differs from rank to rank
    return Parts(config, settings, world, device, saved, data, rendezvous, task, network, schedule, optimizer, scaler)


def seed(number: int) -> None:
    """Seed Python, NumPy and Paddle, devices included."""
    random.seed(number)
    np.random.seed(number % 2**32)
    paddle.seed(number)
