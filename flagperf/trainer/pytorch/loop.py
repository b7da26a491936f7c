"""The one loop of every PyTorch case.

It knows devices, precision, distribution, timing, evaluation, stopping and logging; a task knows the model.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Generator, Mapping
from contextlib import nullcontext
from time import perf_counter, time
from typing import Any

from torch import Tensor

from flagperf.errors import TrainingError
from flagperf.perflog import PerfLog
from flagperf.trainer.pytorch.checkpoint import restore, snapshot
from flagperf.trainer.pytorch.clock import CHECKPOINT, COMPUTE, DATA, EVALUATE, STEP, clock_for
from flagperf.trainer.pytorch.data import loader, on_device
from flagperf.trainer.pytorch.evaluation import evaluate
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.randomness import set_random_state
from flagperf.trainer.pytorch.records import Step, StepRecords
from flagperf.trainer.pytorch.synthetic import held_stream
from flagperf.trainer.rules import Progress, Rules
from flagperf.trainer.sample_data import is_sample_data

HOLD = 0.2  # seconds that records of fast steps may wait, to be written together
HEARTBEAT = 10.0  # seconds without a PerfLog line after which a loop that moves says so


class Training:
    """One training on this rank. `run` runs it; what it measured stays in its attributes."""

    def __init__(self, parts: Parts, perflog: PerfLog) -> None:
        self.parts, self.perflog = parts, perflog
        self.settings, self.task, self.precision = parts.settings, parts.task, parts.precision
        self.loss = self.precision.cast(self.task.loss)
        self.micro_steps = self.settings.gradient_accumulation_steps
        self.optimizer = parts.optimizer
        self.step_scheduler = parts.scheduler if self.settings.lr_interval == "step" else None
        self.epoch_scheduler = parts.scheduler if self.settings.lr_interval == "epoch" else None
        self.sample_data = is_sample_data(parts.config["data_dir"])
        # A result on sample data never claims the target of the full case.
        self.target = None if self.sample_data and parts.config["size"] == "full" else self.settings.target
        self.rules = Rules(self.settings, parts.world)
        self.clock = clock_for(parts.device)
        self.records = StepRecords(perflog, self.clock, parts.world, parts.device)

        self.progress = Progress()
        self.stop_reason: str | None = None
        self.metrics: dict[str, float] = {}  # of the last evaluation
        self.samples = self.units = 0  # of this rank, in this process
        self.units_by_step = array("q")  # units of this rank up to the end of each step
        self.next_look = 0
        self.random_state: Mapping[str, Any] | None = None
        if parts.config["resume"] is not None:
            self.progress, self.random_state = restore(parts, parts.config["resume"])
        self.resumed_from = self.progress.step
        self.distributed, self.model = parts.wrapped()

    # ---------------------------------------------------------------- the loop

    def run(self) -> None:
        """Train until a rule says stop."""
        if self.settings.initial_evaluation and not self.resumed_from:
            began = perf_counter()
            metrics = evaluate(self.parts, self._heartbeat)
            self._log("INIT_EVALUATION", {**metrics, "time": perf_counter() - began})
        self.batches = self._train_stream()
        self.parts.world.wait()
        self._log("INIT_END", {"rendezvous": self.parts.rendezvous})
        self._log("TRAIN_START")
        self.began, self.began_wall = perf_counter(), time()
        if self.random_state is not None:
            set_random_state(self.random_state, self.parts.device)
        self.clock.start()
        self.rules.start()
        self.stop_reason = self.rules.limit(self.progress)  # a resumed training may have none left
        try:
            while self.stop_reason is None:
                self._epoch()
            self._finish_records()
        finally:
            self.records.write()
        self.clock.read()
        self.seconds, self.seconds_wall = perf_counter() - self.began, time() - self.began_wall
        self._log("TRAIN_END")
        self.batches.close()  # ends the processes of the loader

    def _epoch(self) -> None:
        progress = self.progress
        self.epoch = progress.epoch
        self._log("EPOCH_BEGIN", {"epoch": self.epoch})
        steps = self.parts.train_batches.steps(self.epoch)
        for samples in steps[progress.step_in_epoch :]:
            self._step()
            progress.advance(samples)
            if progress.step >= self.next_look:
                self._after_step(samples)
            if progress.step_in_epoch == len(steps):
                self._after_epoch()
            if self.rules.saves(progress.step):
                self._save()
            if self.step_ended - self.perflog.written > HOLD:
                self._heartbeat()
            if self.stop_reason is not None:
                break
        self._log("EPOCH_END", {"epoch": self.epoch})

    def _step(self) -> None:
        """One optimizer step; the last of its micro steps averages the gradients over the ranks."""
        self.step_began = time()
        self.losses: list[Tensor] = []  # of the micro steps
        for _ in range(self.micro_steps - 1):
            with self._without_sync():
                self._micro_step()
            self.clock.lap(COMPUTE)
        self._micro_step()
        self.learning_rate = self.optimizer.param_groups[0]["lr"]
        self.grad_norm = self.precision.step(self.optimizer, self.parts.parameters, self.settings.clip_grad)
        self.parts.update_average(self.progress.step + 1)
        self.optimizer.zero_grad()
        if self.step_scheduler is not None:
            self.step_scheduler.step()
        self.clock.lap(STEP)
        self.units_by_step.append(self.units)
        self.step_ended = time()

    def _micro_step(self) -> None:
        batch = next(self.batches)
        self.clock.lap(DATA)
        loss = self.loss(self.model, batch)
        self.precision.backward(loss, self.micro_steps)
        self.losses.append(loss)

    def _after_step(self, samples: int) -> None:
        """What may be due after a step of so many samples of the whole job."""
        step = self.progress.step
        if self.rules.logs(step):
            self.records.open(self._last_step())
        if self.records.due == step:
            self._settle_record()
        if self.rules.evaluates(self.progress, samples):
            self._evaluate()
        self.stop_reason = self.stop_reason or self.rules.stop_reason(self.progress)
        self.next_look = self.records.due or self.rules.next_look(self.progress)

    def _after_epoch(self) -> None:
        if self.rules.evaluates_epoch(self.progress):
            self._evaluate()
        if self.epoch_scheduler is not None:
            self.epoch_scheduler.step()
        if self.rules.ends_with_epoch(self.progress.epoch):
            self.stop_reason = self.stop_reason or "max_epochs"
        self.progress.epoch += 1
        self.progress.step_in_epoch = 0

    # ---------------------------------------------------------------- what it does now and then

    def _evaluate(self) -> None:
        self._settle_record()
        if self.stop_reason == "non_finite_loss":
            return
        self.metrics = evaluate(self.parts, self._heartbeat)
        before = self.clock.seconds[EVALUATE]
        self.clock.lap(EVALUATE)
        self.records.write()
        self.clock.read()
        value = {"step": self.progress.step, "samples": self.progress.samples, **self.metrics}
        self._log("EVALUATE", {**value, "time": self.clock.seconds[EVALUATE] - before})
        if self.target is not None and self.target.reached(self.metrics):
            self.stop_reason = "target"

    def _save(self) -> None:
        self._settle_record()
        if self.stop_reason == "non_finite_loss":
            return
        snapshot(self.parts, self.progress)
        self.clock.lap(CHECKPOINT)

    def _settle_record(self) -> None:
        self.records.settle()
        if self.records.loss is not None and not math.isfinite(self.records.loss):
            self.stop_reason = "non_finite_loss"

    def _finish_records(self) -> None:
        """The last step is always logged."""
        if self.resumed_from < self.progress.step and self.records.opened < self.progress.step:
            self.records.open(self._last_step())
        self._settle_record()

    def _heartbeat(self) -> None:
        """Show that the loop moves: with the records that are held, or a line of its own."""
        self.records.write()
        if time() - self.perflog.written > HEARTBEAT:
            phase = "train" if self.parts.evaluated.training else "evaluate"
            self.perflog.log("HEARTBEAT", {"phase": phase, "step": self.progress.step})

    # ---------------------------------------------------------------- small parts

    def _train_stream(self) -> Generator[Any]:
        """Batches on the device without end, counted as they are taken."""
        parts = self.parts
        parts.train_batches.start_at(self.progress.epoch, self.progress.step_in_epoch)
        if self.settings.synthetic:
            return held_stream(parts, self._count)

        def move(batch: Any) -> Any:
            self._count(self.task.samples(batch), self.task.units(batch))
            return parts.to_device(batch)

        return on_device(
            loader(parts.train_data, parts.train_batches, self.settings.num_workers, parts.device), move, parts.device
        )

    def _count(self, samples: int, units: int) -> None:
        self.samples += samples
        self.units += units

    def _without_sync(self) -> Any:
        return self.distributed.no_sync() if self.parts.world.size > 1 else nullcontext()  # type: ignore[operator]

    def _last_step(self) -> Step:
        return Step(
            number=self.progress.step,
            epoch=self.epoch,
            learning_rate=self.learning_rate,
            began=self.step_began,
            ended=self.step_ended,
            losses=self.losses,
            grad_norm=self.grad_norm,
            loss_scale=self.precision.loss_scale(),
            units=self.units,
        )

    def _log(self, event: str, value: Mapping[str, Any] | None = None) -> None:
        self.records.write()
        self.perflog.log(event, value, stacklevel=2)


def check_loss(training: Training) -> None:
    """Raise TrainingError where the loss became NaN or infinite."""
    if training.stop_reason == "non_finite_loss":
        raise TrainingError(
            f"training diverged: the loss was {training.records.loss} at step {training.records.opened}"
        )
