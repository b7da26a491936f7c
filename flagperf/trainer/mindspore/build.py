"""The parts of one training on one rank, made from its configuration."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import mindspore
from mindspore import Parameter, amp, nn

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.target import check_target
from flagperf.trainer.checkpoints.files import check_agreed
from flagperf.trainer.data.same_data import check_same_data
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.supported import PYTORCH_ONLY, check_supported
from flagperf.trainer.mindspore.checkpoint import Saved, load
from flagperf.trainer.mindspore.data import Data, open_data
from flagperf.trainer.mindspore.device import open_device
from flagperf.trainer.mindspore.ranks import World
from flagperf.trainer.mindspore.task import Task
from flagperf.trainer.mindspore.weights import load_weights

CAST = {"amp_fp16": mindspore.float16, "amp_bf16": mindspore.bfloat16}
FIRST_SCALE, SCALE_FACTOR, SCALE_WINDOW = 2.0**16, 2, 2000  # of the loss in fp16, as PyTorch has them


@dataclass(frozen=True)
class Parts:
    """What the loop works with; the fields are in the order in which they are made."""

    config: Mapping[str, Any]
    settings: Settings
    world: World
    device: str  # its type, as MindSpore calls it: CPU or Ascend
    saved: Saved | None  # the checkpoint that the training goes on from
    data: Data
    rendezvous: float  # seconds in which this rank joined the others
    task: Task
    network: nn.Cell
    schedule: Any  # a schedule of MindSpore, or None
    optimizer: nn.Optimizer
    scaler: amp.LossScaler | None  # in fp16

    @property
    def stateful(self) -> dict[str, Parameter]:
        """What a checkpoint keeps, by name; the schedule has no state but the optimizer's count of steps."""
        found = {one.name: one for cell in (self.network, self.optimizer) for one in cell.get_parameters()}
        if self.scaler is not None:
            found.update({"scaler.scale": self.scaler.scale_value, "scaler.counter": self.scaler.counter})
        return found


def build(config: Mapping[str, Any]) -> Parts:
    """Open the data, join the other ranks and make all other parts.

    Raises:
        ConfigError: the configuration cannot be used here.
    """
    settings, world = Settings.read(config), World.of()
    check_supported(settings, {**PYTORCH_ONLY, "ddp": {}}, "MindSpore")
    device = open_device(config["vendor"], settings, world)
    saved = None if config["resume"] is None else load(config, world)
    data = open_data(config, settings, world, saved.position if saved else Position())  # forks: before the ranks join
    began = perf_counter()
    world.connect(config["vendor"]["backend"], settings.process_group_timeout)
    rendezvous = perf_counter() - began
    if saved:
        check_agreed(world.gather(saved.name))
    check_same_data(config, world, data.counts)

    seed(settings.seed)  # the same weights on every rank
    task: Task = component(config, "task")
    check_target(settings.target, task.metrics)
    network: nn.Cell = component(config, "network")
    if settings.init_checkpoint is not None:
        load_weights(network, task, settings.init_checkpoint)
    schedule = component(config, "lr_scheduler", settings.lr, data.train_batches.steps_per_epoch)
    rate = settings.lr if schedule is None else schedule
    optimizer = component(config, "optimizer", task.parameters(network), learning_rate=rate)
    if settings.precision in CAST:
        network = amp.auto_mixed_precision(network, "auto", CAST[settings.precision])
    fp16 = settings.precision == "amp_fp16"
    scaler = amp.DynamicLossScaler(FIRST_SCALE, SCALE_FACTOR, SCALE_WINDOW) if fp16 else None
    seed(settings.seed + 1 + world.rank)  # dropout differs from rank to rank
    return Parts(config, settings, world, device, saved, data, rendezvous, task, network, schedule, optimizer, scaler)


def seed(number: int) -> None:
    """Seed Python, NumPy and MindSpore, devices included."""
    random.seed(number)
    mindspore.set_seed(number % 2**32)
    mindspore.manual_seed(number)
