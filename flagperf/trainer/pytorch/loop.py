"""The one loop of every PyTorch case.

It knows devices, precision, distribution, timing, evaluation, stopping and logging; a task knows the model.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from functools import partial
from time import perf_counter, time
from typing import Any

from flagperf.contract.extent import other_data
from flagperf.contract.perflog import PerfLog
from flagperf.contract.sample_data import is_sample_data
from flagperf.contract.settings import ON_SAMPLE_DATA, sample_target
from flagperf.trainer.loop.agenda import Agenda, Position
from flagperf.trainer.loop.clock import CHECKPOINT, DATA, EVALUATE
from flagperf.trainer.loop.records import HEARTBEAT, HOLD, StepRecords
from flagperf.trainer.loop.trained import Diverged, Trained
from flagperf.trainer.pytorch.checkpoint import Resumed, restore, snapshot
from flagperf.trainer.pytorch.device import clock_for
from flagperf.trainer.pytorch.evaluation import evaluate
from flagperf.trainer.pytorch.feed import Feed
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.profile import stepper
from flagperf.trainer.pytorch.randomness import set_random_state
from flagperf.trainer.pytorch.sums import send


class Training:
    """One training on this rank; `run` runs it and says what it measured."""

    def __init__(self, parts: Parts, perflog: PerfLog) -> None:
        self.parts, self.settings, self.perflog = parts, parts.settings, perflog
        self.sample_data = is_sample_data(parts.config["data_dir"])
        # A result on sample data, or on other data than the case's, never claims the target of the full case.
        other = (self.sample_data and parts.config["size"] == "full") or other_data(parts.config, parts.datasets.counts)
        self.target = None if other else self.settings.target
        self.ends_at = sample_target(parts.config, self.settings)
        self.agenda = Agenda(self.settings, parts.world.largest)
        self.clock = clock_for(parts.device)
        lag = 0 if parts.device.type == "cpu" else 1
        to_host = partial(send, parts.world, parts.device)
        unit = parts.config["throughput_unit"]
        self.records = StepRecords(perflog, self.clock, parts.world.size, to_host, lag, unit)
        self.epoch_scheduler = parts.scheduler if self.settings.lr_interval == "epoch" else None

        folder = parts.config["resume"]
        resumed = Resumed(Position(), None) if folder is None else restore(parts, folder)
        self.position, self.random_state, self.resume_notes = resumed
        self.resumed_from = self.position.step
        parts.datasets.train_batches.start_at(self.position.epoch, self.position.step_in_epoch)
        self.feed = Feed(parts)
        self.stepper = stepper(parts, self.feed.batches, self.clock)
        self.stop_reason = self.agenda.limit(self.position)  # a resumed training may have nothing left to do
        self.metrics: dict[str, float] = {}  # of the last evaluation …
        self.evaluated = self.resumed_from  # … and the step after which it was made
        self.units_by_step = array("q")  # units of this rank up to the end of each step
        self.next_look = self.steps_in_epoch = 0

    # ---------------------------------------------------------------- the loop

    def run(self) -> Trained:
        """Train until a limit or the target is reached."""
        if self.settings.initial_evaluation and not self.resumed_from:
            self._evaluate_initially()
        self.parts.world.wait()
        notes = {"resume_notes": self.resume_notes} if self.resume_notes else {}
        self._log("INIT_END", {"rendezvous": self.parts.rendezvous, **notes})
        self._log("TRAIN_START")
        began, began_wall = perf_counter(), time()
        if self.random_state is not None:
            set_random_state(self.random_state, self.parts.device)
        self.clock.start()
        self.agenda.start()
        try:
            while self.stop_reason is None:
                self._epoch()
            self._finish_records()
            self._evaluate_end()
        finally:
            self._write_records()
        self.clock.read()
        self.stepper.close()
        trained = self._trained(began, perf_counter() - began, time() - began_wall)
        self._log("TRAIN_END")
        self.feed.batches.close()
        self.parts.datasets.close()
        return trained

    def _epoch(self) -> None:
        position = self.position
        self.epoch = position.epoch
        self._log("EPOCH_BEGIN", {"epoch": self.epoch})
        steps = self.parts.datasets.train_batches.steps(self.epoch)
        self.steps_in_epoch = len(steps)
        for samples in steps[position.step_in_epoch :]:
            self.stepper.step(position.step + 1)
            self.units_by_step.append(self.feed.units)
            position.advance(samples)
            if position.step >= self.next_look:
                self._after_step(samples)
            if position.step_in_epoch == len(steps):
                self._after_epoch()
            if self.agenda.saves(position.step):
                self._save()
            if position.step - self.resumed_from == self.stepper.comparisons.due:
                self._compare()
            if self.stepper.ended - self.perflog.written > HOLD:
                self._heartbeat()
            if self.stop_reason is not None:
                break
        self._log("EPOCH_END", {"epoch": self.epoch, "step": position.step})

    def _after_step(self, samples: int) -> None:
        """Do what is due after a step of so many samples of the whole job."""
        step = self.position.step
        if self.agenda.logs(step):
            self._open_record()
        if self.records.due == step:
            self._settle_record()
        if self.agenda.evaluates(self.position, samples):
            self._evaluate()
        self.stop_reason = self.stop_reason or self.agenda.stop_reason(self.position)
        self.next_look = self.records.due or self.agenda.next_look(self.position)

    def _after_epoch(self) -> None:
        if self.agenda.evaluates_epoch(self.position):
            self._evaluate()
        if self.epoch_scheduler is not None:
            self.epoch_scheduler.step()
        if self.agenda.ends_with_epoch(self.position.epoch):
            self.stop_reason = self.stop_reason or "max_epochs"
        self.position.epoch += 1
        self.position.step_in_epoch = 0

    # ---------------------------------------------------------------- what it does now and then

    def _evaluate_initially(self) -> None:
        began = perf_counter()
        metrics = evaluate(self.parts, self._heartbeat)
        self._log("INIT_EVALUATION", {**metrics, "time": perf_counter() - began})

    def _evaluate(self) -> None:
        self._settle_record()
        if self.stop_reason == "non_finite_loss":
            return
        self.metrics, self.evaluated = evaluate(self.parts, self._heartbeat), self.position.step
        before = self.clock.seconds[EVALUATE]
        self.clock.lap(EVALUATE)
        self._write_records()
        self.clock.read()
        value = {"step": self.position.step, "samples": self.position.samples, **self.metrics}
        self._log("EVALUATE", {**value, "time": self.clock.seconds[EVALUATE] - before})
        if self.target is not None and self.target.reached(self.metrics):
            self.stop_reason = "target"
        elif self.ends_at is not None and self.ends_at.reached(self.metrics):
            self.stop_reason = ON_SAMPLE_DATA

    def _evaluate_end(self) -> None:
        """Evaluate the network as a limit left it."""
        if self.evaluated < self.position.step and self.agenda.evaluates_end(self.position):
            self._evaluate()

    def _save(self) -> None:
        self._settle_record()
        if self.stop_reason == "non_finite_loss":
            return
        snapshot(self.parts, self.position)
        self.clock.lap(CHECKPOINT)

    def _compare(self) -> None:
        """Compare a vendor's network with the case's, outside the time of any step."""
        self._settle_record()
        self.stepper.comparisons.compare(self.stepper.batch)
        self.clock.lap(CHECKPOINT)

    def _heartbeat(self) -> None:
        """Show that the loop moves: with the records that are held, or a line of its own."""
        self._write_records()
        if time() - self.perflog.written > HEARTBEAT:
            phase = "train" if self.parts.evaluated.training else "evaluate"
            self.perflog.log("HEARTBEAT", {"phase": phase, "step": self.position.step})

    # ---------------------------------------------------------------- records and events

    def _open_record(self) -> None:
        self._settle_record()  # that of the step before, where the device runs behind the host
        self.records.open(self.stepper.last(self.position, self.epoch, self.feed.units))

    def _settle_record(self) -> None:
        self.records.settle()
        if not self.records.finite:
            self.stop_reason = "non_finite_loss"

    def _finish_records(self) -> None:
        """The last step is always logged."""
        if self.resumed_from < self.position.step and self.records.opened < self.position.step:
            self._open_record()
        self._settle_record()

    def _log(self, event: str, value: Mapping[str, Any] | None = None) -> None:
        self._write_records()
        self.perflog.log(event, value, stacklevel=2)

    def _write_records(self) -> None:
        """Write the records that are held, and in that of the last step that it is the last, where that is known."""
        ends = self.stop_reason or self.agenda.ends_here(self.position, self.steps_in_epoch)
        self.records.write(self.position.step if ends else 0)

    def _diverged(self) -> Diverged | None:
        """Where the losses ceased to be numbers; asked of all ranks, which all stopped for it."""
        if self.records.finite:
            return None
        return Diverged.of(self.parts.world.gather(self.stepper.diverged()), self.parts.strategy.mesh.data_rank)

    def _trained(self, began: float, train_time: float, wall_time: float) -> Trained:
        return Trained(
            position=self.position,
            resumed_from=self.resumed_from,
            stop_reason=self.stop_reason,
            target=self.target,
            metrics=self.metrics,
            loss=self.records.loss,
            loss_step=self.records.loss_step,
            diverged=self._diverged(),
            loss_checksum=self.records.checksum,
            sample_data=self.sample_data,
            samples=self.feed.samples,
            units=self.feed.units,
            units_by_step=self.units_by_step,
            began=began,
            train_time=train_time,
            wall_time=wall_time,
            step_times=self.clock.steps,
            compute_time=self.clock.compute,
            data_wait=self.clock.seconds[DATA],
            eval_time=self.clock.seconds[EVALUATE],
            checkpoint_time=self.clock.seconds[CHECKPOINT],
            clock=self.clock.name,
            comparisons=self.stepper.comparisons.figures(),
        )
