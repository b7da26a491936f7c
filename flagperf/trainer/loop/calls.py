"""What a framework says to the engine that is made of its calls (standard.py). Between the two go arrays of NumPy."""

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
from flagperf.trainer.loop.clock import Clock
from flagperf.trainer.loop.engine import Engine
from flagperf.trainer.loop.supported import PYTORCH_ONLY
from flagperf.trainer.loop.task import Task


class FrameworkCalls(Engine):
    """What raises NotImplementedError here, each framework says; beside it, of Engine, `versions` and `step`.

    Attributes:
        title: of the framework, for messages.
        only: settings that it does not have → the only value that they may have.
        joins_first: whether ranks must join before the framework's first operation. Otherwise they join after the
            processes that load are forked.
        schedules: modules that schedules are made from, in addition to a schedule's own module.
        task, network, optimizer, schedule: as the configuration describes them; a schedule may be None.
    """

    title: str
    only: Mapping[str, Any] = PYTORCH_ONLY
    joins_first = False
    schedules: Sequence[str] = ()
    world: ArrayRanks
    task: Task
    network: Any
    optimizer: Any
    schedule: Any

    # ---------------------------------------------------------------- the start

    def ranks(self) -> ArrayRanks:
        """The ranks, not yet joined."""
        raise NotImplementedError

    def open_device(self) -> None:
        """Make the device of this local rank the current one, and say its `device_name`.

        Raises:
            ConfigError: the plug-in is missing, there is no such device, or it cannot do what the settings ask for.
        """
        raise NotImplementedError

    def make_clock(self) -> Clock:
        """The finest clock that the device has."""
        return Clock()

    def seed(self, number: int) -> None:
        """Seed all generators of random numbers, those of devices included."""
        raise NotImplementedError

    def load(self, opened: Opened) -> Loaded:
        """Begin to load the batches of the data sets."""
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
        """Make what else a step needs."""

    # ---------------------------------------------------------------- network and state

    def weights(self) -> Mapping[str, Any]:
        """What weights the network wants, by name, with `shape`."""
        raise NotImplementedError

    def fill(self, given: Mapping[str, NDArray[Any]]) -> None:
        """Fill the network with weights."""
        raise NotImplementedError

    def trained_arrays(self) -> Iterable[NDArray[Any]]:
        """The parameters that are trained."""
        raise NotImplementedError

    def statistics(self) -> list[Any]:
        """Tensors that each rank keeps for itself, such as those of batch norm: an evaluation uses rank 0's."""
        return []

    def assign(self, tensor: Any, value: NDArray[Any]) -> None:
        """Fill one of `statistics`."""
        raise NotImplementedError

    def peak_memory(self) -> tuple[float, str]:
        """GiB held at the peak, and who held them: the device's allocator, or this process."""
        raise NotImplementedError

    def state(self) -> Mapping[str, Any]:
        """What a checkpoint keeps of network and optimizer: `arrays` by name, unless `write_state` takes another."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, Any]) -> None:
        """Bring network and optimizer to a state that `state` gave."""
        raise NotImplementedError

    def random_state(self) -> Any:
        """The state of this rank's generators, an array; None where `state` has them all."""
        return None

    def set_random_state(self, state: Any) -> None:
        """Go on from a state that `random_state` gave."""

    def write_state(self, file: BinaryIO, state: Mapping[str, Any]) -> None:
        """Write a state to a file."""
        write_arrays(file, state)

    def read_state(self, path: Path) -> Mapping[str, Any]:
        """Read a state from a file, which anyone may have written."""
        return read_arrays(path)

    def network_identity(self) -> Mapping[str, Any]:
        """What identifies the network in BUILT."""
        raise NotImplementedError

    def optimizer_identity(self) -> Mapping[str, Any]:
        """What identifies the optimizer in BUILT."""
        raise NotImplementedError

    def rate(self, schedule: Any, interval: int) -> float:
        """The learning rate of a schedule that has stepped so often, which stays as it is."""
        raise NotImplementedError

    # ---------------------------------------------------------------- steps and evaluations

    def numbers(self, tensor: Any) -> NDArray[Any]:
        """The numbers of a tensor, on the host."""
        return np.asarray(tensor)

    def count(self, batch: Any) -> Any:
        """What the task counts of a batch of the evaluation, a tensor."""
        return self.task.count(self.network, batch)

    def evaluating(self) -> AbstractContextManager[Any]:
        """A block in which the network is evaluated."""
        return nullcontext()

    def mean(self, losses: Sequence[Any]) -> float:
        """The mean of the losses of micro steps."""
        return float(np.mean([float(loss) for loss in losses]))
