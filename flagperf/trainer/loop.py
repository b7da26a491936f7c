"""The one loop of every PyTorch case.

It knows devices, precision, distribution, timing, evaluation, stopping and logging; a task knows the model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from flagperf.errors import ConfigError, TrainingError
from flagperf.perflog import PerfLog
from flagperf.trainer import checkpoint
from flagperf.trainer.build import build_network, build_optimizer, distribute
from flagperf.trainer.clock import CHECKPOINT, COMPUTE, DATA, EVALUATE, STEP, clock_for
from flagperf.trainer.components import component
from flagperf.trainer.data import TrainBatches, eval_batches, loader, on_device
from flagperf.trainer.device import open_device
from flagperf.trainer.precision import Precision
from flagperf.trainer.randomness import choose_algorithms, random_state, seed_all, set_random_state
from flagperf.trainer.records import Step, StepRecords
from flagperf.trainer.rules import Progress, Rules
from flagperf.trainer.sample_data import is_sample_data
from flagperf.trainer.task import Task
from flagperf.trainer.words import Words
from flagperf.trainer.world import World

HEARTBEAT = 10.0  # seconds without a PerfLog line after which a loop that moves says so


class Training:
    """One training on this rank: made by `__init__`, run by `run`; what it measured stays in its attributes."""

    def __init__(self, config: Mapping[str, Any], perflog: PerfLog) -> None:
        self.config, self.perflog = config, perflog
        self.words = words = Words.read(config)
        self.world = world = World.of()
        self.device = open_device(config["vendor"], world)
        world.connect(self.device, config["vendor"]["backend"], words.process_group_timeout)
        choose_algorithms(words.deterministic, words.cudnn_benchmark)
        self.precision = Precision(words.precision, self.device)

        seed_all(words.seed)  # the same weights on every rank
        self.task: Task = component(config, "task")
        self.network = build_network(config, words, self.task, self.device, world)
        self.optimizer = build_optimizer(config, self.task, self.network)
        self.scheduler = component(config, "lr_scheduler", self.optimizer)
        self.parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        seed_all(words.seed + 1 + world.rank)  # dropout differs from rank to rank

        self.train_data, self.eval_data = component(config, "train_data"), component(config, "eval_data")
        self.train_batches = TrainBatches(
            self.train_data, words.train_batch_size, words.gradient_accumulation_steps, world, words.seed
        )
        self.sample_data = is_sample_data(config["data_dir"])
        # A result on sample data never claims the target of the full case.
        self.target = None if self.sample_data and config["size"] == "full" else words.target
        self.rules = Rules(words, world)
        self.clock = clock_for(self.device)
        self.records = StepRecords(perflog, self.clock, world, self.device)

        self.progress = Progress()
        self.samples = self.units = 0  # of this rank, in this process
        self.warmup_units = 0
        self.metrics: dict[str, float] = {}
        self.stop_reason: str | None = None
        if words.resume is not None:
            self._resume(words.resume)
        self.resumed_from = self.progress.step
        self.distributed = distribute(self.network, words, self.device, world)
        self.model: nn.Module = self.distributed
        if words.compile:
            self.model = torch.compile(self.distributed)  # type: ignore[assignment]

    # ------------------------------------------------------------ the loop

    def run(self) -> None:
        """Train until a rule says stop."""
        self.world.wait()
        self.perflog.log("TRAIN_START")
        self.began, self.began_wall = time.perf_counter(), time.time()
        self.batches = self._train_stream()
        self.clock.start()
        self.rules.start()
        self.stop_reason = self.rules.stop_reason(self.progress)
        while self.stop_reason is None:
            self._epoch()
        if self.records.last < self.progress.step and self.progress.step > self.resumed_from:
            self.records.open(self._last_step())
        self.records.close()
        self.clock.read()
        self.seconds, self.seconds_wall = time.perf_counter() - self.began, time.time() - self.began_wall
        self.batches.close()  # ends the processes of the loader
        self.perflog.log("TRAIN_END")

    def _epoch(self) -> None:
        progress = self.progress
        self.epoch = progress.epoch
        self.perflog.log("EPOCH_BEGIN", {"epoch": self.epoch})
        steps = self.train_batches.steps(self.epoch)
        for samples in steps[progress.step_in_epoch :]:
            self._step()
            self.step_ended = time.time()
            progress.advance(samples)
            self._after_step(samples)
            if self.stop_reason is not None:
                break
        if progress.step_in_epoch == len(steps) and self.stop_reason != "non_finite_loss":
            self._after_epoch()
        self.perflog.log("EPOCH_END", {"epoch": self.epoch})

    def _step(self) -> None:
        """One optimizer step; the last of its micro steps averages the gradients over the ranks."""
        self.step_began = time.time()
        self.losses: list[Tensor] = []
        micro_steps = self.words.gradient_accumulation_steps
        for micro in range(1, micro_steps + 1):
            batch = next(self.batches)
            self.clock.lap(DATA)
            with self._without_sync() if micro < micro_steps else nullcontext():
                with self.precision.autocast:
                    loss = self.task.loss(self.model, batch)
                self.precision.backward(loss if micro_steps == 1 else loss / micro_steps)
            self.losses.append(loss.detach())
            if micro < micro_steps:
                self.clock.lap(COMPUTE)
        self.learning_rate = self.optimizer.param_groups[0]["lr"]
        self.grad_norm = self.precision.step(self.optimizer, self.parameters, self.words.clip_grad)
        self.optimizer.zero_grad()
        if self.scheduler is not None and self.words.lr_interval == "step":
            self.scheduler.step()
        self.clock.lap(STEP)

    def _after_step(self, samples: int) -> None:
        step = self.progress.step
        if step - self.resumed_from == self.words.warmup_steps:
            self.warmup_units = self.units
        if self.rules.logs(step):
            self.records.open(self._last_step())
        if self.records.is_due(step):
            self._close_record()
        if self.rules.evaluates(self.progress, samples):
            self._evaluate()
        if self.rules.saves(step) and self.stop_reason is None:
            self._save()
        self.stop_reason = self.stop_reason or self.rules.stop_reason(self.progress)
        if self.step_began - self.perflog.written > HEARTBEAT:
            self.perflog.log("HEARTBEAT", {"phase": "train", "step": step})

    def _after_epoch(self) -> None:
        if self.rules.evaluates_epoch(self.progress):
            self._evaluate()
        if self.scheduler is not None and self.words.lr_interval == "epoch":
            self.scheduler.step()
        if self.rules.ends_with_epoch(self.progress.epoch):
            self.stop_reason = self.stop_reason or "max_epochs"
        self.progress.epoch += 1
        self.progress.step_in_epoch = 0

    # ------------------------------------------------------------ its parts

    def _train_stream(self) -> Generator[Any]:
        """Batches on the device without end, counted as they are taken."""
        self.train_batches.start_at(self.progress.epoch, self.progress.step_in_epoch)
        batches = loader(self.train_data, self.train_batches, self.words.num_workers, self.device)

        def move(batch: Any) -> Any:
            self.samples += self.task.samples(batch)
            self.units += self.task.units(batch)
            return self.to_device(batch)

        return on_device(batches, move, self.device)

    def to_device(self, batch: Any) -> Any:
        """A batch as the network takes it."""
        return self.task.to_device(batch, self.device, getattr(torch, self.words.memory_format))

    def _without_sync(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.world.size == 1 else self.distributed.no_sync()  # type: ignore[operator]

    def _last_step(self) -> Step:
        return Step(
            number=self.progress.step,
            epoch=self.epoch,
            learning_rate=float(self.learning_rate),
            began_ms=int(self.step_began * 1000),
            ended_ms=int(self.step_ended * 1000),
            losses=self.losses,
            grad_norm=self.grad_norm,
            loss_scale=self.precision.loss_scale(),
            units=self.units,
        )

    def _close_record(self) -> None:
        self.records.close()
        if not math.isfinite(self.records.loss or 0.0):
            self.stop_reason = "non_finite_loss"

    def initial_evaluation(self) -> None:
        """INIT_EVALUATION: the metrics before any training."""
        began = time.perf_counter()
        metrics = self._metrics()
        self.perflog.log("INIT_EVALUATION", {**metrics, "time": time.perf_counter() - began})

    def _evaluate(self) -> None:
        self._close_record()
        if self.stop_reason == "non_finite_loss":
            return
        self.metrics = self._metrics()
        before = self.clock.seconds[EVALUATE]
        self.clock.lap(EVALUATE)
        self.clock.read()
        value = {"step": self.progress.step, "samples": self.progress.samples, **self.metrics}
        self.perflog.log("EVALUATE", {**value, "time": self.clock.seconds[EVALUATE] - before})
        if self.target is not None and self.target.reached(self._target_metric(self.target.metric)):
            self.stop_reason = "target"

    def _metrics(self) -> dict[str, float]:
        """Evaluate the network itself, outside its wrappers, on every rank's share of the evaluation data."""
        if self.eval_data is None:
            raise ConfigError("there is no evaluation data", where="config.yaml", key="eval_data", given="null")
        self.world.copy_buffers(self.network)
        share = eval_batches(len(self.eval_data), self.words.eval_batch_size, self.world)
        batches = loader(self.eval_data, share, self.words.num_workers, self.device)
        self.network.eval()
        with torch.no_grad(), self.precision.autocast:
            metrics = self.task.evaluate(self.network, self._watched(batches), self.device)
        self.network.train()
        return metrics

    def _watched(self, batches: Any) -> Iterator[Any]:
        for batch in on_device(batches, self.to_device, self.device):
            if time.time() - self.perflog.written > HEARTBEAT:
                self.perflog.log("HEARTBEAT", {"phase": "evaluate", "step": self.progress.step})
            yield batch

    def _target_metric(self, name: str) -> float:
        if name not in self.metrics:
            raise ConfigError(
                "the evaluation gives no such metric",
                where="config.yaml",
                key="target.metric",
                given=name,
                allowed=", ".join(self.metrics),
            )
        return self.metrics[name]

    # ------------------------------------------------------------ checkpoints

    def _save(self) -> None:
        self._close_record()
        if self.stop_reason == "non_finite_loss":
            return
        self.world.copy_buffers(self.network)
        random_states = self.world.gather(random_state(self.device))
        if self.world.rank == 0:
            state = {name: part.state_dict() for name, part in self._stateful()}
            state |= {"identity": self._identity(), "progress": asdict(self.progress), "random": random_states}
            checkpoint.save(checkpoint.checkpoint_folder(), self.progress.step, state)
        self.world.wait()
        self.clock.lap(CHECKPOINT)

    def _resume(self, folder: str) -> None:
        state = checkpoint.load(folder, self._identity())
        for name, part in self._stateful():
            part.load_state_dict(state[name])
        self.progress = Progress(**state["progress"])
        set_random_state(state["random"][self.world.rank], self.device)

    def _stateful(self) -> list[tuple[str, Any]]:
        parts = {
            "network": self.network,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.precision.scaler,
        }
        return [(name, part) for name, part in parts.items() if part is not None]

    def _identity(self) -> dict[str, Any]:
        """What must not change for a resumed training to go on in the same way."""
        keys = ("case", "size", "train_batch_size", "gradient_accumulation_steps", "seed", "precision")
        return {key: self.config[key] for key in keys} | {"nnodes x nproc": self.world.size}


def check_loss(training: Training) -> None:
    """Raise TrainingError where the loss became NaN or infinite."""
    if training.stop_reason == "non_finite_loss":
        raise TrainingError(f"the loss is {training.records.loss} at step {training.records.last}: training diverged")
