"""The training of every Paddle case, from top to bottom: dygraph, with gradients averaged by paddle.DataParallel."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from time import perf_counter, time
from typing import Any

import paddle

from flagperf.perflog import PerfLog
from flagperf.target import check_target
from flagperf.trainer.agenda import Agenda, Position
from flagperf.trainer.clock import CHECKPOINT, COMPUTE, DATA, EVALUATE, STEP
from flagperf.trainer.extent import other_data
from flagperf.trainer.paddle.build import Parts
from flagperf.trainer.paddle.checkpoint import restore, set_random_state, snapshot
from flagperf.trainer.paddle.device import clock_for
from flagperf.trainer.records import HEARTBEAT, HOLD, Step, StepRecords, Sums
from flagperf.trainer.sample_data import is_sample_data
from flagperf.trainer.trained import Trained

AUTOCAST = {"amp_fp16": "float16", "amp_bf16": "bfloat16"}


class Training:
    """One training on this rank; `run` runs it and says what it measured."""

    def __init__(self, parts: Parts, perflog: PerfLog) -> None:
        self.parts, self.settings, self.world, self.perflog = parts, parts.settings, parts.world, perflog
        self.network, self.optimizer, self.scaler = parts.network, parts.optimizer, parts.scaler
        self.model = self.network  # what a training step calls
        if self.world.size > 1:
            self.model = paddle.DataParallel(self.network, **self.settings.ddp)
        self.parameters = self.network.parameters()

        self.sample_data = is_sample_data(parts.config["data_dir"])
        # A result on sample data, or on other data than the case's, never claims the target of the full case.
        other = (self.sample_data and parts.config["size"] == "full") or other_data(parts.config, parts.data.counts)
        self.target = None if other else self.settings.target
        self.agenda = Agenda(self.settings, self.world.largest)
        self.clock = clock_for(parts.device)
        self.records = StepRecords(perflog, self.clock, self.world.size, self.send, lag=0)

        self.position = Position()
        if parts.saved is not None:
            restore(parts.stateful, parts.saved)
            self.position = parts.saved.position
        self.resumed_from = self.position.step
        self.stop_reason = self.agenda.limit(self.position)  # a resumed training may have nothing left to do
        self.metrics: dict[str, float] = {}  # of the last evaluation …
        self.evaluated = self.resumed_from  # … and the step after which it was made
        self.samples = self.units = 0  # of this rank
        self.units_by_step = array("q")  # units up to the end of each step

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
        if self.parts.saved is not None:
            set_random_state(self.parts.saved.random)
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
        """Make an optimizer step; the last of its micro steps averages the gradients over the ranks."""
        self.step_began = time()
        self.losses: list[paddle.Tensor] = []  # of the micro steps
        micro_steps, clip = self.settings.gradient_accumulation_steps, self.settings.clip_grad
        for left in reversed(range(micro_steps)):
            batch = next(self.parts.data.train)
            self.samples += self.parts.task.samples(batch)
            self.units += self.parts.task.units(batch)
            self.clock.lap(DATA)
            with self.model.no_sync() if left and self.world.size > 1 else nullcontext():
                with self.autocast():
                    loss = self.parts.task.loss(self.model, batch)
                self.scaler.scale(loss if micro_steps == 1 else loss / micro_steps).backward()
            self.losses.append(loss.detach())
            if left:
                self.clock.lap(COMPUTE)
        self.learning_rate = self.optimizer.get_lr()
        self.grad_norm = None
        if clip is not None:
            self.scaler.unscale_(self.optimizer)
            self.grad_norm = paddle.nn.utils.clip_grad_norm_(self.parameters, clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.clear_grad()
        if self.parts.schedule is not None:
            self.parts.schedule.step()
        self.units_by_step.append(self.units)
        self.clock.lap(STEP)
        self.ended = time()

    def autocast(self) -> Any:
        """The precision of the forward pass."""
        kind = AUTOCAST.get(self.settings.precision)
        return nullcontext() if kind is None else paddle.amp.auto_cast(dtype=kind, level="O1")

    # ---------------------------------------------------------------- what it does now and then

    def evaluate(self) -> dict[str, float]:
        """Metrics of the network over the evaluation data, each sample once, over all ranks."""
        self.network.eval()
        with paddle.no_grad(), self.autocast():
            metrics = self.parts.task.evaluate(self.network, self.watched(self.parts.data.evaluation()), self.world)
        self.network.train()
        check_target(self.settings.target, metrics)
        return metrics

    def watched(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, with signs of life between them."""
        for batch in batches:
            self.heartbeat("evaluate")
            yield batch

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
        snapshot(self.parts.config, self.world, self.parts.stateful, self.position)
        self.clock.lap(CHECKPOINT)

    # ---------------------------------------------------------------- records and events

    def record(self) -> None:
        """Note the last step, for the log; a loss that is no number stops the training."""
        self.records.open(
            Step(
                number=self.position.step,
                epoch=self.position.epoch,
                learning_rate=self.learning_rate,
                began=self.step_began,
                ended=self.ended,
                losses=self.losses,
                grad_norm=self.grad_norm,
                loss_scale=self.scaler.state_dict()["scale"] if self.scaler.is_enable() else None,
                units=self.units,
            )
        )
        self.records.settle()
        if not self.records.finite:
            self.stop_reason = "non_finite_loss"

    def send(self, units: int, losses: list[paddle.Tensor], extra: list[paddle.Tensor]) -> Sums:
        """A step's units, mean loss and other numbers, summed over the ranks."""
        numbers = [float(units), float(paddle.stack(losses).mean()), *map(float, extra)]
        return self.world.sum(paddle.to_tensor(numbers, dtype="float64")).tolist  # type: ignore[no-any-return]

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
