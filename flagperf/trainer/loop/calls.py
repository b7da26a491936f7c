"""The calls that a framework implements for the standard engine (standard.py). They exchange NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from flagperf.contract.components import component
from flagperf.trainer.array_ranks import ArrayRanks
from flagperf.trainer.checkpoints.state import read_arrays, write_arrays
from flagperf.trainer.data.datasets import Loaded, Opened
from flagperf.trainer.loop.device import Device
from flagperf.trainer.loop.engine import Engine
from flagperf.trainer.loop.supported import PYTORCH_ONLY
from flagperf.trainer.loop.task import Task


class FrameworkCalls(Engine):
    """A framework implements the methods that raise NotImplementedError here, and `versions` and `step` of Engine.

    Attributes:
        title: of the framework, for messages.
        world_class, device_class: the framework's ranks and device.
        fixed: settings that the framework does not have → the only value that they may have.
        joins_first: whether ranks must join before the framework's first operation. Otherwise they join after the
            processes that load are forked.
        schedules: modules whose classes schedules use, beside a schedule's own module.
        task, network, optimizer, schedule: made from the configuration; the schedule may be None.
    """

    title: str
    world_class: type[ArrayRanks]
    device_class: type[Device]
    fixed: Mapping[str, Any] = PYTORCH_ONLY
    joins_first = False
    schedules: Sequence[str] = ()
    world: ArrayRanks
    device: Device
    task: Task
    network: Any
    optimizer: Any
    schedule: Any

    # ---------------------------------------------------------------- the start

    def seed(self, number: int) -> None:
        """Seed all generators of random numbers, also those of devices."""
        raise NotImplementedError

    def load(self, opened: Opened) -> Loaded:
        """Begin to load batches of the data sets."""
        raise NotImplementedError

    def make_network(self) -> Any:
        """The network of the configuration."""
        return component(self.config, "network")

    def make_schedule(self, config: Mapping[str, Any]) -> Any:
        """The schedule of a configuration; None where it has none."""
        return component(config, "lr_scheduler", self.settings.lr, self.train_batches.steps_per_epoch)

    def make_optimizer(self, rate: Any) -> Any:
        """The optimizer of the configuration. `rate`: a schedule, or a number."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make all other parts that a step needs."""

    # ---------------------------------------------------------------- network and state

    def weights(self) -> Mapping[str, Any]:
        """The weights of the network by name, each with a `shape`."""
        raise NotImplementedError

    def fill(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Fill the network with weights, by name."""
        raise NotImplementedError

    def trained_arrays(self) -> Iterable[NDArray[Any]]:
        """The trained parameters."""
        raise NotImplementedError

    def statistics(self) -> list[Any]:
        """Tensors that differ between ranks, such as the statistics of batch norm. Evaluations use those of rank 0."""
        return []

    def assign(self, tensor: Any, value: NDArray[Any]) -> None:
        """Fill one of `statistics`."""
        raise NotImplementedError

    def state(self) -> Mapping[str, Any]:
        """The state of network and optimizer: `arrays` by name, unless `write_state` takes another form."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore network and optimizer from a `state`."""
        raise NotImplementedError

    def random_state(self) -> Any:
        """The state of this rank's generators, an array; None where `state` contains it."""
        return None

    def set_random_state(self, state: Any) -> None:
        """Restore the generators from a `random_state`."""

    def write_state(self, file: BinaryIO, state: Mapping[str, Any]) -> None:
        """Write a state to an open file."""
        write_arrays(file, state)

    def read_state(self, path: Path) -> Mapping[str, Any]:
        """Read a state from a file. Anyone may have written the file."""
        return read_arrays(path)

    def network_identity(self) -> Mapping[str, Any]:
        """The identity of the network in BUILT."""
        raise NotImplementedError

    def optimizer_identity(self) -> Mapping[str, Any]:
        """The identity of the optimizer in BUILT."""
        raise NotImplementedError

    def rate(self, schedule: Any, interval: int) -> float:
        """The learning rate of a schedule after `interval` steps of it. The schedule does not change."""
        raise NotImplementedError

    # ---------------------------------------------------------------- steps and evaluations

    def numbers(self, tensor: Any) -> NDArray[Any]:
        """The numbers of a tensor, on the host."""
        return np.asarray(tensor)

    def count(self, batch: Any) -> Any:
        """The task's counts of a batch of the evaluation, a tensor."""
        return self.task.count(self.network, batch)

    def evaluating(self) -> AbstractContextManager[Any]:
        """A block in which the network is evaluated."""
        return nullcontext()

    def mean(self, losses: Sequence[Any]) -> float:
        """The mean of the losses of micro steps."""
        return float(np.mean([float(loss) for loss in losses]))
