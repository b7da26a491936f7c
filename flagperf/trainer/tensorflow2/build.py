"""The parts of one training on one rank, made from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import keras

from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.target import check_target
from flagperf.trainer.data.same_data import check_same_data
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.supported import PYTORCH_ONLY, check_supported
from flagperf.trainer.tensorflow2.checkpoint import Saved, load
from flagperf.trainer.tensorflow2.data import Data, open_data
from flagperf.trainer.tensorflow2.device import open_device
from flagperf.trainer.tensorflow2.ranks import World
from flagperf.trainer.tensorflow2.task import Task
from flagperf.trainer.tensorflow2.weights import load_weights

POLICY = {"amp_fp16": "mixed_float16", "amp_bf16": "mixed_bfloat16"}


@dataclass(frozen=True)
class Parts:
    """What the loop works with; the fields are in the order in which they are made."""

    config: Mapping[str, Any]
    settings: Settings
    world: World
    device: str  # its type, as TensorFlow calls it: CPU or GPU
    rendezvous: float  # seconds in which this rank joined the others
    saved: Saved | None  # the checkpoint that the training goes on from
    data: Data
    task: Task
    network: keras.Model
    schedule: Any  # a schedule of Keras, or None
    optimizer: keras.optimizers.Optimizer


def build(config: Mapping[str, Any]) -> Parts:
    """Join the other ranks, open the data and make all other parts.

    The strategy comes first: TensorFlow joins no ranks after its first operation.

    Raises:
        ConfigError: the configuration cannot be used here.
    """
    settings, world = Settings.read(config), World.of()
    check_supported(settings, {**PYTORCH_ONLY, "ddp": {}}, "TensorFlow")
    device = open_device(config["vendor"], settings, world)
    began = perf_counter()
    world = world.connected(config["vendor"]["backend"], settings.process_group_timeout)
    rendezvous = perf_counter() - began
    saved = None if config["resume"] is None else load(config, world)
    data = open_data(config, settings, world, saved.position if saved else Position())
    check_same_data(config, world, data.counts)

    keras.utils.set_random_seed(settings.seed % 2**32)  # Python, NumPy and TensorFlow: the same weights on every rank
    keras.mixed_precision.set_global_policy(POLICY.get(settings.precision, "float32"))
    task: Task = component(config, "task")
    check_target(settings.target, task.metrics)
    network: keras.Model = component(config, "network")
    if settings.init_checkpoint is not None:
        load_weights(network, task, settings.init_checkpoint)
    schedule = component(config, "lr_scheduler", settings.lr, data.train_batches.steps_per_epoch)
    optimizer = make_optimizer(config, settings, schedule)
    optimizer.build(network.trainable_variables)
    return Parts(config, settings, world, device, rendezvous, saved, data, task, network, schedule, optimizer)


def make_optimizer(config: Mapping[str, Any], settings: Settings, schedule: Any) -> keras.optimizers.Optimizer:
    """The optimizer of the configuration, which clips and, in fp16, scales the loss."""
    rate = settings.lr if schedule is None else schedule
    optimizer = component(config, "optimizer", learning_rate=rate, global_clipnorm=settings.clip_grad)
    if settings.precision == "amp_fp16":
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer
