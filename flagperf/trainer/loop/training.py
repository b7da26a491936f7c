"""The training of every case on a framework other than PyTorch, from top to bottom, but for what the framework does.

A framework's loop.py makes an optimizer step, evaluates, saves, and brings numbers to the host.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from time import perf_counter, time
from typing import Any, Protocol

from flagperf.contract.extent import other_data
from flagperf.contract.perflog import PerfLog
from flagperf.contract.sample_data import is_sample_data
from flagperf.contract.settings import ON_SAMPLE_DATA, Settings, sample_target
from flagperf.contract.target import check_target
from flagperf.trainer.data.batches import EndlessBatches
from flagperf.trainer.loop.agenda import Agenda, Position
from flagperf.trainer.loop.clock import CHECKPOINT, DATA, EVALUATE, STEP, Clock
from flagperf.trainer.loop.records import HEARTBEAT, HOLD, Step, StepRecords, Sums
from flagperf.trainer.loop.trained import Diverged, Trained
from flagperf.trainer.ranks import Ranks


class Saved(Protocol):
    """What the loop asks of the checkpoint that it goes on from."""

    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def position(self) -> Position: ...


class Data(Protocol):
    """What the loop asks of the data: `train` has batches of this rank without end."""

    @property
    def train_batches(self) -> EndlessBatches: ...
    @property
    def train(self) -> Any: ...
    @property
    def counts(self) -> Mapping[str, int]: ...


class Task(Protocol):
    """What the loop asks of the task."""

    def samples(self, batch: Any, /) -> int: ...
    def units(self, batch: Any, /) -> int: ...


class Parts(Protocol):
    """What the loop asks of the parts that a framework's build.py makes."""

    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def world(self) -> Ranks: ...
    @property
    def saved(self) -> Saved | None: ...
    @property
    def data(self) -> Data: ...
    @property
    def task(self) -> Task: ...
    @property
    def rendezvous(self) -> float: ...


class Training:
    """One training on this rank; `run` runs it and says what it measured.

    Attributes:
        losses: of the micro steps of the last step, which `make_step` leaves.
        grad_norm: of that step, or None.
    """

    losses: list[Any]
    grad_norm: Any = None

    def __init__(self, parts: Parts, perflog: PerfLog, clock: Clock) -> None:
        self._parts, self.settings, self.perflog, self.clock = parts, parts.settings, perflog, clock
        self.sample_data = is_sample_data(parts.config["data_dir"])
        # A result on sample data, or on other data than the case's, never claims the target of the full case.
        other = (self.sample_data and parts.config["size"] == "full") or other_data(parts.config, parts.data.counts)
        self.target = None if other else self.settings.target
        self.ends_at = sample_target(parts.config, self.settings)
        self.agenda = Agenda(self.settings, parts.world.largest)
        self.records = StepRecords(
            perflog, clock, parts.world.size, self.send, lag=0, unit=parts.config["throughput_unit"]
        )

        self.position = parts.saved.position if parts.saved else Position()
        self.resumed_from = self.position.step
        self.stop_reason = self.agenda.limit(self.position)  # a resumed training may have nothing left to do
        self.metrics: dict[str, float] = {}  # of the last evaluation …
        self.evaluated = self.resumed_from  # … and the step after which it was made
        self.samples = self.units = 0  # of this rank
        self.units_by_step = array("q")  # units up to the end of each step
        self.steps_in_epoch = 0

    # ---------------------------------------------------------------- what a framework does

    def started(self) -> None:
        """The training starts now: generators of random numbers go on from the checkpoint's state."""

    def make_step(self) -> None:
        """Make an optimizer step, with a batch of `take` for each micro step."""
        raise NotImplementedError

    def learning_rate(self) -> float:
        """Of the last step."""
        raise NotImplementedError

    def loss_scale(self) -> Any:
        """Of the loss in fp16; None in other precisions."""
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        """Metrics of the network over the evaluation data, each sample once, over all ranks."""
        raise NotImplementedError

    def snapshot(self) -> None:
        """Write a checkpoint."""
        raise NotImplementedError

    def send(self, units: int, losses: list[Any], extra: list[Any]) -> Sums:
        """A step's units, mean loss and other numbers, summed over the ranks."""
        raise NotImplementedError

    # ---------------------------------------------------------------- the loop

    def run(self) -> Trained:
        """Train until a limit or the target is reached."""
        if self.settings.initial_evaluation and not self.resumed_from:
            began = perf_counter()
            metrics = self.checked()
            self.log("INIT_EVALUATION", {**metrics, "time": perf_counter() - began})
        self._parts.world.wait()
        notes = self._parts.saved.notes if self._parts.saved else ()
        self.log("INIT_END", {"rendezvous": self._parts.rendezvous, **({"resume_notes": notes} if notes else {})})
        self.log("TRAIN_START")
        self.began, began_wall = perf_counter(), time()
        self.started()
        self.clock.start()
        self.agenda.start()
        try:
            while self.stop_reason is None:
                self.epoch()
            if self.resumed_from < self.position.step and self.records.opened < self.position.step:
                self.record()  # the last step is always logged
            if self.evaluated < self.position.step and self.agenda.evaluates_end(self.position):
                self.evaluate_and_log()
        finally:
            self.write_records()
        self.clock.read()
        trained = self.trained(perf_counter() - self.began, time() - began_wall)
        self.log("TRAIN_END")
        return trained

    def epoch(self) -> None:
        """Train to the end of the epoch, or to where something stops the training."""
        position, epoch = self.position, self.position.epoch
        self.log("EPOCH_BEGIN", {"epoch": epoch})
        steps = self._parts.data.train_batches.steps(epoch)
        self.steps_in_epoch = len(steps)
        for samples in steps[position.step_in_epoch :]:
            self.step()
            position.advance(samples)
            if self.agenda.logs(position.step):
                self.record()
            if self.agenda.evaluates(position, samples):
                self.evaluate_and_log()
            self.stop_reason = self.stop_reason or self.agenda.stop_reason(position)
            if position.step_in_epoch == len(steps):
                if self.agenda.evaluates_epoch(position):
                    self.evaluate_and_log()
                if self.agenda.ends_with_epoch(epoch):
                    self.stop_reason = self.stop_reason or "max_epochs"
                position.epoch, position.step_in_epoch = epoch + 1, 0
            if self.agenda.saves(position.step):
                self.save()
            if self.ended - self.perflog.written > HOLD:
                self.heartbeat("train")
            if self.stop_reason is not None:
                break
        self.log("EPOCH_END", {"epoch": epoch, "step": position.step})

    def step(self) -> None:
        """Make an optimizer step, and note when it was."""
        self.step_began = time()
        self.make_step()
        self.units_by_step.append(self.units)
        self.clock.lap(STEP)
        self.ended = time()

    def take(self) -> Any:
        """The next batch of this rank, counted."""
        batch = next(self._parts.data.train)
        self.samples += self._parts.task.samples(batch)
        self.units += self._parts.task.units(batch)
        self.clock.lap(DATA)
        return batch

    # ---------------------------------------------------------------- what it does now and then

    def checked(self) -> dict[str, float]:
        """Metrics, among which that of the target must be."""
        metrics = self.evaluate()
        check_target(self.settings.target, metrics)
        return metrics

    def evaluate_and_log(self) -> None:
        """Evaluate, unless the loss is no number any more."""
        if self.stop_reason == "non_finite_loss":
            return
        self.metrics, self.evaluated = self.checked(), self.position.step
        before = self.clock.seconds[EVALUATE]
        self.clock.lap(EVALUATE)
        self.clock.read()
        value = {"step": self.position.step, "samples": self.position.samples, **self.metrics}
        self.log("EVALUATE", {**value, "time": self.clock.seconds[EVALUATE] - before})
        if self.target is not None and self.target.reached(self.metrics):
            self.stop_reason = "target"
        elif self.ends_at is not None and self.ends_at.reached(self.metrics):
            self.stop_reason = ON_SAMPLE_DATA

    def save(self) -> None:
        """Write a checkpoint, unless the loss is no number any more."""
        if self.stop_reason == "non_finite_loss":
            return
        self.snapshot()
        self.clock.lap(CHECKPOINT)

    # ---------------------------------------------------------------- records and events

    def record(self) -> None:
        """Note the last step, for the log; a loss that is no number stops the training."""
        self.records.open(
            Step(
                number=self.position.step,
                epoch=self.position.epoch,
                learning_rate=self.learning_rate(),
                began=self.step_began,
                ended=self.ended,
                losses=self.losses,
                grad_norm=self.grad_norm,
                loss_scale=self.loss_scale(),
                units=self.units,
                samples=self.position.samples,
            )
        )
        self.records.settle()
        if not self.records.finite:
            self.stop_reason = "non_finite_loss"

    def heartbeat(self, phase: str) -> None:
        """Show that the loop moves: with the records that are held, or a line of its own."""
        self.write_records()
        if time() - self.perflog.written > HEARTBEAT:
            self.perflog.log("HEARTBEAT", {"phase": phase, "step": self.position.step})

    def log(self, event: str, value: Mapping[str, Any] | None = None) -> None:
        """Write an event after the records that came before it."""
        self.write_records()
        self.perflog.log(event, value, stacklevel=2)

    def write_records(self) -> None:
        """Write the records that are held, and in that of the last step that it is the last, where that is known."""
        ends = self.stop_reason or self.agenda.ends_here(self.position, self.steps_in_epoch)
        self.records.write(self.position.step if ends else 0)

    def diverged(self) -> Diverged | None:
        """Whose loss ceased to be a number in the last logged step; asked of all ranks, which all stopped for it."""
        if self.records.finite:
            return None
        own = all(math.isfinite(float(loss)) for loss in self.losses)
        steps = self._parts.world.gather(None if own else self.position.step)
        return Diverged.of(steps, lambda rank: rank)

    def trained(self, train_time: float, wall_time: float) -> Trained:
        """What this rank did."""
        return Trained(
            position=self.position,
            resumed_from=self.resumed_from,
            stop_reason=self.stop_reason,
            target=self.target,
            metrics=self.metrics,
            loss=self.records.loss,
            loss_step=self.records.loss_step,
            diverged=self.diverged(),
            loss_checksum=self.records.checksum,
            sample_data=self.sample_data,
            samples=self.samples,
            units=self.units,
            units_by_step=self.units_by_step,
            began=self.began,
            train_time=train_time,
            wall_time=wall_time,
            step_times=self.clock.steps,
            compute_time=self.clock.compute,
            data_wait=self.clock.seconds[DATA],
            eval_time=self.clock.seconds[EVALUATE],
            checkpoint_time=self.clock.seconds[CHECKPOINT],
            clock=self.clock.name,
        )
