"""The interface between the loop and a framework: an engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable, NamedTuple

from flagperf.contract.perflog import PerfLog
from flagperf.contract.settings import Settings
from flagperf.trainer.data.batches import EndlessBatches
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.clock import Clock
from flagperf.trainer.loop.records import Sums
from flagperf.trainer.loop.trained import FrameworkFigures, Trained
from flagperf.trainer.ranks import Ranks

Progress = Callable[[], None]


class Resumed(NamedTuple):
    """The position where a training goes on, and notes about the checkpoints."""

    position: Position
    notes: tuple[str, ...] = ()


class Engine:
    """The training of this rank in a framework: steps, evaluations, checkpoints.

    Attributes:
        config, settings: of the training.
        world: the ranks.
        train_batches: they know the samples in each step of an epoch.
        counts: of the data sets, by the names of contract/extent.py.
        rendezvous: seconds in which this rank joined the others.
        device_name: the name that the device reports.
        versions: of the framework's packages.
        libraries: paths of libraries of operators that the framework loaded.
        clock: `step` notes DATA and COMPUTE in it.
        lag: 1 where the device runs behind the host, so that the figures of a step arrive during the next; else 0.
        samples, units: of this rank, up to the last step.
        losses: tensors of the micro steps of the last step.
        grad_norm: a tensor of the last step, or None.
        checksums: of loss, gradients and parameters of the last step, by name, where the setting `checksum_freq` asks
            for them.
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
    checksums: Mapping[str, str] = {}
    check_due = 0

    # ---------------------------------------------------------------- start and end

    def identities(self) -> Mapping[str, Any]:
        """`network`, `optimizer` and `schedule` for BUILT, read from the objects that the training uses."""
        raise NotImplementedError

    def resume(self) -> Resumed:
        """Restore all parts from the checkpoint, where the training resumes from one.

        Raises:
            ConfigError: no checkpoint is intact, or it belongs to another training.
        """
        raise NotImplementedError

    def watch(self, perflog: PerfLog) -> None:
        """Log long waits for other ranks from now on, where the framework knows them."""

    def unwatched(self) -> AbstractContextManager[None]:
        """A block in which other ranks may work alone for long."""
        return nullcontext()

    def start(self) -> None:
        """Restore the states of the generators of random numbers, right before the first step."""

    def close(self) -> None:
        """End the processes that load data, after the last step."""

    def framework_figures(self, trained: Trained) -> FrameworkFigures:
        """Figures of this rank that only the framework knows, after the training."""
        raise NotImplementedError

    def probe(self) -> Mapping[str, float | None]:
        """Rates that this rank's device achieves, for PROBE; only where the framework's file says `probes`."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leave the other ranks, after all have their figures."""

    # ---------------------------------------------------------------- steps

    def step(self, number: int) -> None:
        """Make the optimizer step of this number, from 1."""
        raise NotImplementedError

    def end_epoch(self) -> None:
        """Called after the last step of an epoch, and after its evaluation."""

    def learning_rate(self, step: int) -> float:
        """The learning rate of the last step. `step`: its number."""
        raise NotImplementedError

    def loss_scale(self) -> Any:
        """The scale of the loss in fp16, a tensor; None in other precisions."""
        return None

    def send(self, units: int, losses: list[Any], extra: list[Any]) -> Sums:
        """Send a step's numbers to the host, summed over the ranks: units, the mean loss, and others."""
        raise NotImplementedError

    def diverged(self, step: int) -> int | None:
        """The first step with a loss of this rank that was NaN or infinite; None: none known. `step`: the last step."""
        return None if all(math.isfinite(float(loss)) for loss in self.losses) else step

    def data_rank(self, rank: int) -> int:
        """The data rank of a rank: the number of its share of the data."""
        return rank

    # ---------------------------------------------------------------- evaluations, checkpoints, checks

    def evaluate(self, progress: Progress) -> dict[str, float]:
        """Metrics of the network over the evaluation data, each sample once, over all ranks.

        Args:
            progress: the engine calls it once a batch.
        """
        raise NotImplementedError

    def snapshot(self, position: Position) -> None:
        """Write a checkpoint. It is complete when the call returns, on every rank; or when `finish_snapshot` does."""
        raise NotImplementedError

    def finish_snapshot(self) -> None:
        """Wait until the last checkpoint is complete, where it is written in the background."""

    def check_copies(self, step: int) -> None:
        """Compare the parameters of ranks that must hold equal ones, after an evaluation. `step`: the last step.

        Raises:
            TrainingError: the parameters of a rank differ; first on that rank.
        """

    def check(self) -> None:
        """Make the framework's checks, outside the time of any step."""

    def figures(self) -> Mapping[str, Any]:
        """Figures of FINISHED from these checks."""
        return {}
