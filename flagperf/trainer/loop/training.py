"""The one loop of every training. An engine (engine.py) makes steps; the loop logs, evaluates, saves and stops.

An accelerator may run behind the host: the engine's `lag` is then 1. The figures of a step then arrive during the next
step, and a record is settled one step after it was opened. Without a lag a record is settled at once.
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
from flagperf.contract.target import check_target
from flagperf.trainer.loop.agenda import Agenda
from flagperf.trainer.loop.clock import CHECKPOINT, DATA, EVALUATE, STEP, WAIT
from flagperf.trainer.loop.engine import Engine
from flagperf.trainer.loop.figures import step_metric
from flagperf.trainer.loop.records import HEARTBEAT, MAX_WAIT, Step, StepRecords
from flagperf.trainer.loop.trained import Diverged, Trained


class Training:
    """One training on this rank; `run` runs it and returns its measurements."""

    def __init__(self, engine: Engine, perflog: PerfLog) -> None:
        config, self.engine, self.perflog = engine.config, engine, perflog
        self.settings, self.clock = engine.settings, engine.clock
        self.sample_data = is_sample_data(config["data_dir"])
        # A result on sample data, or on other data than the case's, never claims the target of the full case.
        other = (self.sample_data and config["size"] == "full") or other_data(config, engine.counts)
        self.target = None if other else self.settings.target
        self.ends_at = sample_target(config, self.settings)
        self.agenda = Agenda(self.settings, engine.world.largest)
        self.records = StepRecords(
            perflog, self.clock, engine.world.size, engine.send, engine.lag, config["throughput_unit"]
        )

        self.position, self.resume_notes = engine.resume()
        self.resumed_from = self.position.step
        self.stop_reason = self.agenda.limit(self.position)  # a resumed training may already be at its limit
        self.metrics: dict[str, float] = {}  # of the last evaluation …
        self.evaluated = self.resumed_from  # … and the step after which it was made
        self.units_by_step = array("q")  # units of this rank up to the end of each step
        self.epoch = self.position.epoch  # of the last step
        self.steps_in_epoch = self.next_due = self.next_event = 0

    # ---------------------------------------------------------------- the loop

    def run(self) -> Trained:
        """Train until a limit or the target is reached."""
        engine = self.engine
        if self.settings.initial_evaluation and not self.resumed_from:
            began = perf_counter()
            metrics = self._metrics()
            self._log("INIT_EVALUATION", {**metrics, "time": perf_counter() - began})
        engine.world.wait()
        notes = {"resume_notes": self.resume_notes} if self.resume_notes else {}
        self._log("INIT_END", {"rendezvous": engine.rendezvous, **notes})
        self._log("TRAIN_START")
        began, began_wall = perf_counter(), time()
        engine.start()
        engine.watch(self.perflog)
        self.clock.start()
        self.agenda.start()
        try:
            while self.stop_reason is None:
                self._epoch()
            if self.settings.checkpoint_in_background:
                self._finish_save()
        finally:
            self._write_records()
        self.clock.read()
        trained = self._trained(began, perf_counter() - began, time() - began_wall)
        self._log("TRAIN_END", None if trained.diverged_step is None else {"diverged_step": trained.diverged_step})
        engine.close()
        return trained

    def _epoch(self) -> None:
        """Train to the end of the epoch, or to where something stops the training."""
        engine, position, lap = self.engine, self.position, self.clock.lap
        self.epoch = position.epoch
        self._log("EPOCH_BEGIN", {"epoch": self.epoch})
        steps = engine.train_batches.steps(self.epoch)
        self.steps_in_epoch = len(steps)
        self.epoch_ends = position.step + len(steps) - position.step_in_epoch
        self.next_due = self.next_event = position.step + 1
        for samples in steps[position.step_in_epoch :]:
            self.step_began = time()
            engine.step(position.step + 1)
            lap(STEP)
            self.step_ended = time()
            self.units_by_step.append(engine.units)
            position.advance(samples)
            if position.step >= self.next_due:
                self._after_step(samples)
            if self.step_ended - self.perflog.written > MAX_WAIT:
                self._heartbeat("train")
            if self.stop_reason is not None:
                break
        if self.stop_reason is not None:
            self._end()
        self._log("EPOCH_END", {"epoch": self.epoch, "step": position.step})

    def _after_step(self, samples: int) -> None:
        """Log, evaluate, save and stop where due after a step. `samples`: of the whole job in this step."""
        step = self.position.step
        if self.agenda.logs(step):
            self._open_record()
        if self.records.due == step:
            self._settle_record()
        if step >= self.next_event:
            self._act(samples)
        if self.records.full:
            self._write_records()
        # Where the device runs behind the host, the record is settled after the next step.
        self.next_due = self.records.due or min(self.agenda.next_record(step), self.next_event)

    def _act(self, samples: int) -> None:
        """Evaluate, save and stop where due."""
        position, agenda, engine = self.position, self.agenda, self.engine
        if agenda.checksums(position.step):
            self._log("CHECKSUMS", {"step": position.step, **engine.checksums})
        if agenda.evaluates(position, samples):
            self._evaluate()
        self.stop_reason = self.stop_reason or agenda.stop_reason(position)
        if position.step_in_epoch == self.steps_in_epoch:
            self._end_epoch()
        if agenda.saves(position.step):
            self._save()
        if position.step - self.resumed_from == engine.check_due:
            self._check()
        due = (agenda.next_event(position), self.epoch_ends, self.resumed_from + engine.check_due)
        later = [step for step in due if step is not None and step > position.step]
        self.next_event = min(later, default=position.step)  # none is later where the epoch ends here

    def _end_epoch(self) -> None:
        position = self.position
        if self.agenda.evaluates_epoch(position):
            self._evaluate()
        self.engine.end_epoch()
        if self.agenda.ends_with_epoch(position.epoch):
            self.stop_reason = self.stop_reason or "max_epochs"
        position.epoch, position.step_in_epoch = position.epoch + 1, 0

    def _end(self) -> None:
        """Log the last step, which is always logged, and evaluate the weights that nothing evaluated yet."""
        if self.records.opened < self.position.step:
            self._open_record()
        self._settle_record()
        if self.evaluated < self.position.step and self.agenda.evaluates_end(self.position):
            self._evaluate()

    # ---------------------------------------------------------------- evaluations, checkpoints, checks

    def _metrics(self) -> dict[str, float]:
        """Metrics of the network, the same on every rank. Raises ConfigError where the target's metric is missing."""
        with self.engine.unwatched():
            metrics = self.engine.evaluate(partial(self._heartbeat, "evaluate"))
        check_target(self.settings.target, metrics)
        return metrics

    def _evaluate(self) -> None:
        """Evaluate, unless the loss is NaN or infinite. The step is logged before, with the metric."""
        step = self.position.step
        if self.records.opened < step:
            self._open_record()
        self._settle_record()
        if self.stop_reason == "non_finite_loss":
            return
        # The record waits for the metric. But the launcher waits for the first one: `deadlines.first_step`.
        self.records.hold = step if step > self.resumed_from + 1 else 0
        try:
            self.metrics, self.evaluated = self._metrics(), step
        finally:
            self.records.hold = 0
        target = self.settings.target
        self.records.metric = step_metric(self.metrics, target.metric if target else None)
        self.engine.check_copies(step)
        before = self.clock.seconds[EVALUATE]
        self.clock.lap(EVALUATE)
        if self.target is not None and self.target.reached(self.metrics):
            self.stop_reason = "target"
        elif self.ends_at is not None and self.ends_at.reached(self.metrics):
            self.stop_reason = ON_SAMPLE_DATA
        self._write_records()
        self.clock.read()
        value = {"step": step, "samples": self.position.samples, **self.metrics}
        self._log("EVALUATE", {**value, "time": self.clock.seconds[EVALUATE] - before})

    def _save(self) -> None:
        """Write a checkpoint, unless the loss is NaN or infinite."""
        self._settle_record()
        if self.stop_reason == "non_finite_loss":
            return
        with self.engine.unwatched():
            self.engine.snapshot(self.position)
        self.clock.lap(CHECKPOINT)

    def _finish_save(self) -> None:
        """Wait until the last checkpoint is written."""
        with self.engine.unwatched():
            self.engine.finish_snapshot()
        self.clock.lap(CHECKPOINT)

    def _check(self) -> None:
        self._settle_record()
        self.engine.check()
        self.clock.lap(CHECKPOINT)

    def _heartbeat(self, phase: str) -> None:
        """Show that the loop moves: write the waiting records, or a HEARTBEAT."""
        self._write_records()
        if time() - self.perflog.written > HEARTBEAT:
            self.perflog.log("HEARTBEAT", {"phase": phase, "step": self.position.step})

    # ---------------------------------------------------------------- records and events

    def _open_record(self) -> None:
        """Begin to send the figures of the last step to the host."""
        self._settle_record()  # the record before, where the device runs behind the host
        engine, position = self.engine, self.position
        self.records.open(
            Step(
                number=position.step,
                epoch=self.epoch,
                learning_rate=engine.learning_rate(position.step),
                began=self.step_began,
                ended=self.step_ended,
                losses=engine.losses,
                grad_norm=engine.grad_norm,
                loss_scale=engine.loss_scale(),
                units=engine.units,
                samples=position.samples,
            )
        )

    def _settle_record(self) -> None:
        """Take the figures that were sent. A loss that is NaN or infinite stops the training."""
        self.records.settle()
        if not self.records.finite:
            self.stop_reason = "non_finite_loss"

    def _log(self, event: str, value: Mapping[str, Any] | None = None) -> None:
        """Write the waiting records, then an event."""
        self._write_records()
        self.perflog.log(event, value, stacklevel=2)

    def _write_records(self) -> None:
        """Write the waiting records. The record of the last step is marked, where the end is known."""
        ends = self.stop_reason or self.agenda.ends_here(self.position, self.steps_in_epoch)
        self.records.write(self.position.step if ends else 0)

    def _diverged(self) -> Diverged | None:
        """Where the losses became NaN or infinite; None where they did not. All ranks call this together."""
        if self.records.finite:
            return None
        steps = self.engine.world.gather(self.engine.diverged(self.position.step))
        return Diverged.of(steps, self.engine.data_rank)

    def _trained(self, began: float, train_time: float, wall_time: float) -> Trained:
        """The measurements of this rank; times in seconds."""
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
            samples=self.engine.samples,
            units=self.engine.units,
            units_by_step=self.units_by_step,
            began=began,
            train_time=train_time,
            wall_time=wall_time,
            step_times=self.clock.steps,
            compute_time=self.clock.compute,
            data_wait=self.clock.seconds[DATA],
            eval_time=self.clock.seconds[EVALUATE],
            checkpoint_time=self.clock.seconds[CHECKPOINT],
            communication_wait=self.clock.seconds[WAIT] or None,
            clock=self.clock.name,
            comparisons=self.engine.figures(),
        )
