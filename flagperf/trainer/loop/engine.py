"""What the loop asks of a framework: an engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Callable, NamedTuple

from flagperf.contract.settings import Settings
from flagperf.trainer.data.batches import EndlessBatches
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.clock import Clock
from flagperf.trainer.loop.records import Sums
from flagperf.trainer.loop.trained import FrameworkFigures, Trained
from flagperf.trainer.ranks import Ranks

Progress = Callable[[], None]


class Resumed(NamedTuple):
    """Where a training goes on, and what to know of the checkpoints, in words."""

    position: Position
    notes: tuple[str, ...] = ()


class Engine:
    """The training of this rank, as a framework makes it: steps, evaluations, checkpoints.

    Attributes:
        config, settings: of the training.
        world: the ranks.
        train_batches: how many samples each step of an epoch has.
        counts: what the data sets hold, by the names of contract/extent.py.
        rendezvous: seconds in which this rank joined the others.
        device_name: what the device calls itself.
        versions: of the framework's packages.
        libraries: paths of libraries of operators that were loaded into it.
        clock: `step` notes DATA and COMPUTE in it.
        lag: 1 where the device runs behind the host, so that the figures of a step arrive during the next; else 0.
        samples, units: of this rank, up to the last step.
        losses: tensors of the micro steps of the last step.
        grad_norm: a tensor of the last step, or None.
        check_due: the step of this process after which to `check`; 0: never.
    """

    config: Mapping[str, Any]
    settings: Settings
    world: Ranks
    train_batches: EndlessBatches
    counts: Mapping[str, int]
    rendezvous: float
    device_name: str
    versions: Mapping[str, str]
    libraries: Iterable[str] = ()
    clock: Clock
    lag = 0
    samples = 0
    units = 0
    losses: list[Any]
    grad_norm: Any = None
    check_due = 0

    # ---------------------------------------------------------------- start and end

    def identities(self) -> Mapping[str, Any]:
        """`network`, `optimizer` and `schedule`, as BUILT has them: what was really built, after every plug-in."""
        raise NotImplementedError

    def resume(self) -> Resumed:
        """Bring all parts to the checkpoint that the training goes on from.

        Raises:
            ConfigError: there is none, or it belongs to another training.
        """
        raise NotImplementedError

    def start(self) -> None:
        """The training starts now: generators of random numbers go on from the checkpoint's state."""

    def close(self) -> None:
        """The training is over: end processes that load."""

    def framework_figures(self, trained: Trained) -> FrameworkFigures:
        """What only the framework can tell of this rank when the training is over."""
        raise NotImplementedError

    def probe(self) -> Mapping[str, float | None]:
        """What this rank's device achieves, as PROBE has it; where the framework's file says `probes`."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leave the other ranks, when all have their figures."""

    # ---------------------------------------------------------------- steps

    def step(self, number: int) -> None:
        """Make the optimizer step of this number, from 1."""
        raise NotImplementedError

    def end_epoch(self) -> None:
        """The last step of an epoch is made, and the network is evaluated where that is due."""

    def learning_rate(self, step: int) -> float:
        """Of the last step, whose number is given."""
        raise NotImplementedError

    def loss_scale(self) -> Any:
        """Of the loss in fp16, a tensor; None in other precisions."""
        return None

    def send(self, units: int, losses: list[Any], extra: list[Any]) -> Sums:
        """Send a step's numbers to the host, summed over the ranks: units, the mean loss, and others."""
        raise NotImplementedError

    def diverged(self, step: int) -> int | None:
        """The first step in which the loss of this rank was no number, as far as known. `step`: the last one."""
        return None if all(math.isfinite(float(loss)) for loss in self.losses) else step

    def share(self, rank: int) -> int:
        """Which share of the data a rank trains on."""
        return rank

    # ---------------------------------------------------------------- now and then

    def evaluate(self, progress: Progress) -> dict[str, float]:
        """Metrics of the network over the evaluation data, each sample once, over all ranks.

        Args:
            progress: to be called once a batch.
        """
        raise NotImplementedError

    def snapshot(self, position: Position) -> None:
        """Write a checkpoint. It is complete when the call returns, on every rank."""
        raise NotImplementedError

    def check(self) -> None:
        """Check what the framework checks outside the time of any step."""

    def figures(self) -> Mapping[str, Any]:
        """Figures of FINISHED from these checks."""
        return {}
