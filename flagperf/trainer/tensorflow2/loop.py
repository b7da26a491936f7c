"""The training of every TensorFlow case, from top to bottom: an own loop around one tf.function that makes a step."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from time import perf_counter, time
from typing import Any

import numpy as np
import tensorflow as tf

from flagperf.perflog import PerfLog
from flagperf.target import check_target
from flagperf.trainer.agenda import Agenda, Position
from flagperf.trainer.clock import CHECKPOINT, DATA, EVALUATE, STEP, Clock
from flagperf.trainer.extent import other_data
from flagperf.trainer.records import HEARTBEAT, HOLD, Step, StepRecords, Sums
from flagperf.trainer.sample_data import is_sample_data
from flagperf.trainer.tensorflow2.build import Parts
from flagperf.trainer.tensorflow2.checkpoint import restore, snapshot
from flagperf.trainer.trained import Trained


class Training:
    """One training on this rank; `run` runs it and says what it measured."""

    def __init__(self, parts: Parts, perflog: PerfLog) -> None:
        self.parts, self.settings, self.world, self.perflog = parts, parts.settings, parts.world, perflog
        self.network, self.optimizer, self.task = parts.network, parts.optimizer, parts.task
        self.scaled = self.settings.precision == "amp_fp16"

        self.sample_data = is_sample_data(parts.config["data_dir"])
        # A result on sample data, or on other data than the case's, never claims the target of the full case.
        other = (self.sample_data and parts.config["size"] == "full") or other_data(parts.config, parts.data.counts)
        self.target = None if other else self.settings.target
        self.agenda = Agenda(self.settings, self.world.largest)
        self.clock = Clock()
        self.records = StepRecords(perflog, self.clock, self.world.size, self.send, lag=0)

        self.position = Position()
        if parts.saved is not None:
            restore(self.stateful, parts.saved)
            self.position = parts.saved.position
        self.resumed_from = self.position.step
        self.stop_reason = self.agenda.limit(self.position)  # a resumed training may have nothing left to do
        self.metrics: dict[str, float] = {}  # of the last evaluation …
        self.evaluated = self.resumed_from  # … and the step after which it was made
        self.samples = self.units = 0  # of this rank
        self.units_by_step = array("q")  # units up to the end of each step

    @property
    def stateful(self) -> dict[str, Any]:
        """What a checkpoint keeps; the schedule has no state but the optimizer's count of steps."""
        return {"network": self.network, "optimizer": self.optimizer}

    # ---------------------------------------------------------------- the loop

    def run(self) -> Trained:
        """Train until a limit or the target is reached."""
        if self.settings.initial_evaluation and not self.resumed_from:
            began = perf_counter()
            metrics = self.evaluate()
            self.log("INIT_EVALUATION", {**metrics, "time": perf_counter() - began})
        self.world.wait()
        notes = self.parts.saved.notes if self.parts.saved else ()
        self.log("INIT_END", {"rendezvous": self.parts.rendezvous} | ({"resume_notes": notes} if notes else {}))
        self.log("TRAIN_START")
        self.began, began_wall = perf_counter(), time()
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
            self.records.write()
        self.clock.read()
        trained = self.trained(perf_counter() - self.began, time() - began_wall)
        self.log("TRAIN_END")
        return trained

    def epoch(self) -> None:
        """Train to the end of the epoch, or to where something stops the training."""
        position, epoch = self.position, self.position.epoch
        self.log("EPOCH_BEGIN", {"epoch": epoch})
        steps = self.parts.data.train_batches.steps(epoch)
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
        self.log("EPOCH_END", {"epoch": epoch})

    # ---------------------------------------------------------------- one optimizer step

    def step(self) -> None:
        """Take a batch for each micro step, and make an optimizer step."""
        self.step_began = time()
        batches = tuple(next(self.parts.data.train) for _ in range(self.settings.gradient_accumulation_steps))
        self.samples += sum(self.task.samples(batch) for batch in batches)
        self.units += sum(self.task.units(batch) for batch in batches)
        self.clock.lap(DATA)
        self.loss, self.grad_norm, self.loss_scale = self.train_step(batches)
        self.units_by_step.append(self.units)
        self.clock.lap(STEP)
        self.ended = time()

    @tf.function  # type: ignore[untyped-decorator]
    def train_step(self, batches: tuple[Any, ...]) -> tuple[tf.Tensor, ...]:
        """One optimizer step, in a graph. Gives this rank's mean loss, the norm of all gradients, the loss scale."""
        scale = tf.convert_to_tensor(self.optimizer.dynamic_scale if self.scaled else 1.0)
        loss, gradients = self.world.strategy.run(self.averaged_gradients, args=(batches,))
        norm = tf.linalg.global_norm(gradients) / scale
        self.optimizer.apply(gradients, self.network.trainable_variables)  # takes the scale off, and clips
        return loss, norm, scale

    def averaged_gradients(self, batches: tuple[Any, ...]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """This rank's mean loss, and the mean of the gradients over its micro steps and all ranks."""
        losses, sums = [], None
        for batch in batches:
            with tf.GradientTape() as tape:
                loss = self.task.loss(self.network, batch)
                scaled = self.optimizer.scale_loss(loss) / len(batches)
            gradients = tape.gradient(scaled, self.network.trainable_variables)
            sums = gradients if sums is None else [one + other for one, other in zip(sums, gradients, strict=True)]
            losses.append(loss)
        context = tf.distribute.get_replica_context()
        return tf.add_n(losses) / len(losses), context.all_reduce(tf.distribute.ReduceOp.MEAN, sums)

    # ---------------------------------------------------------------- what it does now and then

    def evaluate(self) -> dict[str, float]:
        """Metrics of the network over the evaluation data, each sample once, over all ranks."""
        self.share_statistics()
        counted = np.zeros(self.task.counts)
        assert self.parts.data.eval is not None  # or no setting asks for an evaluation
        for batch in self.parts.data.eval:
            self.heartbeat("evaluate")
            counted += self.count_batch(batch).numpy()
        metrics = self.task.measure(self.world.sum(counted))
        check_target(self.settings.target, metrics)
        return metrics

    def share_statistics(self) -> None:
        """Take over what rank 0's batch norm keeps: each rank has its own, and all must evaluate the same network."""
        kept = self.network.non_trainable_weights
        if self.world.size > 1 and kept:
            numbers = self.world.of_first(np.concatenate([np.ravel(weight) for weight in kept]).astype(np.float64))
            ends = np.cumsum([math.prod(weight.shape) for weight in kept])
            for weight, part in zip(kept, np.split(numbers, ends[:-1]), strict=True):
                weight.assign(part.reshape(weight.shape))

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def count_batch(self, batch: Any) -> tf.Tensor:
        """What the task counts of a batch of the evaluation, in a graph."""
        return self.task.count(self.network, batch)

    def evaluate_and_log(self) -> None:
        """Evaluate, unless the loss is no number any more."""
        if self.stop_reason == "non_finite_loss":
            return
        self.metrics, self.evaluated = self.evaluate(), self.position.step
        before = self.clock.seconds[EVALUATE]
        self.clock.lap(EVALUATE)
        self.clock.read()
        value = {"step": self.position.step, "samples": self.position.samples, **self.metrics}
        self.log("EVALUATE", {**value, "time": self.clock.seconds[EVALUATE] - before})
        if self.target is not None and self.target.reached(self.metrics):
            self.stop_reason = "target"

    def save(self) -> None:
        """Write a checkpoint, unless the loss is no number any more."""
        if self.stop_reason == "non_finite_loss":
            return
        snapshot(self.parts.config, self.world, self.stateful, self.position)
        self.clock.lap(CHECKPOINT)

    # ---------------------------------------------------------------- records and events

    def record(self) -> None:
        """Note the last step, for the log; a loss that is no number stops the training."""
        schedule = self.parts.schedule
        self.records.open(
            Step(
                number=self.position.step,
                epoch=self.position.epoch,
                learning_rate=self.settings.lr if schedule is None else schedule(self.position.step - 1),
                began=self.step_began,
                ended=self.ended,
                losses=[self.loss],
                grad_norm=None if self.settings.clip_grad is None else self.grad_norm,
                loss_scale=self.loss_scale if self.scaled else None,
                units=self.units,
            )
        )
        self.records.settle()
        if not self.records.finite:
            self.stop_reason = "non_finite_loss"

    def send(self, units: int, losses: list[tf.Tensor], extra: list[tf.Tensor]) -> Sums:
        """A step's units, mean loss and other numbers, summed over the ranks."""
        numbers = np.array([units, np.mean([float(loss) for loss in losses]), *map(float, extra)])
        return self.world.sum(numbers).tolist

    def heartbeat(self, phase: str) -> None:
        """Show that the loop moves: with the records that are held, or a line of its own."""
        self.records.write()
        if time() - self.perflog.written > HEARTBEAT:
            self.perflog.log("HEARTBEAT", {"phase": phase, "step": self.position.step})

    def log(self, event: str, value: Mapping[str, Any] | None = None) -> None:
        """Write an event after the records that came before it."""
        self.records.write()
        self.perflog.log(event, value, stacklevel=2)

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
