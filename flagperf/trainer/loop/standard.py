"""The engine of a framework that implements the calls of calls.py. It exchanges NumPy arrays with the framework."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from flagperf.contract.checkpoint import identity
from flagperf.contract.components import component
from flagperf.contract.settings import Settings
from flagperf.contract.target import check_target
from flagperf.trainer.checkpoints.files import SingleRank, check_agreed, checkpoint_folder, save
from flagperf.trainer.checkpoints.state import read_newest
from flagperf.trainer.checkpoints.weights import check_fit, read_weights
from flagperf.trainer.data.datasets import open_datasets
from flagperf.trainer.data.numpy_batches import TrainBatches
from flagperf.trainer.data.same_data import check_same_data
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.calls import FrameworkCalls
from flagperf.trainer.loop.clock import DATA
from flagperf.trainer.loop.engine import Progress, Resumed
from flagperf.trainer.loop.finish import forward_by_task
from flagperf.trainer.loop.records import Sums
from flagperf.trainer.loop.schedule import Intervals, schedule_identity
from flagperf.trainer.loop.supported import check_supported
from flagperf.trainer.loop.task import Task
from flagperf.trainer.loop.trained import FrameworkFigures, Trained
from flagperf.trainer.start.imports import imported_anew


class StandardEngine(FrameworkCalls):
    """Makes the parts of a training in a fixed order, and implements the engine by a few calls of the framework."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Open the data, join the other ranks and make all other parts.

        Raises:
            ConfigError: the configuration cannot be used here.
        """
        self.config, self.settings = config, Settings.read(config)
        check_supported(self.settings, self.fixed, self.title)
        self.world = self.world_class.of()
        self.device = self.device_class(config["vendor"], self.settings, self.world)
        self.clock = self.device.clock()
        if self.joins_first:
            self._join()
        rank_seed = self.settings.seed + 1 + self.world.rank
        self.seed(rank_seed)
        self._read_checkpoint()
        self._open_data()
        if not self.joins_first:
            self._join()
        self.device_name = self.device.name()
        if self.saved is not None:
            check_agreed(self.world.gather(self.saved.name))
        check_same_data(config, self.world, self.counts, getattr(self.opened.train, "classes", None))

        self.seed(self.settings.seed)  # the same weights on every rank
        self.task: Task = component(config, "task")
        check_target(self.settings.target, self.task.metrics)
        self.network = self.make_network()
        if self.settings.init_checkpoint is not None:
            self._load_weights(self.settings.init_checkpoint)
        self.schedule = self.make_schedule(config)
        self.optimizer = self.make_optimizer(self.settings.lr if self.schedule is None else self.schedule)
        self.prepare()
        self.seed(rank_seed)  # dropout differs from rank to rank

    def _join(self) -> None:
        began = perf_counter()
        self.world = self.world.join(self.config["vendor"]["backend"], self.settings.process_group_timeout)
        self.rendezvous = perf_counter() - began

    def _read_checkpoint(self) -> None:
        self.saved, self.position = None, Position()
        if self.config["resume"] is not None:
            ranks = self.world if self.joins_first else SingleRank(self.world.rank)
            self.saved = read_newest(self.config, self.world.size, ranks, self.read_state)
            self.position = Position(**self.saved.state["progress"])

    def _open_data(self) -> None:
        """Open the data sets and begin to load from the position on."""
        self.opened = open_datasets(self.config, self.settings, self.world, TrainBatches)
        self.train_batches, self.counts = self.opened.batches, self.opened.counts
        self.train_batches.start_at(self.position.epoch, self.position.step_in_epoch)
        self.loaded = self.load(self.opened)

    def _load_weights(self, path: str) -> None:
        given, wanted = self.task.initial_weights(read_weights(path)), self.weights()
        check_fit(path, given, wanted)
        self.fill(given)

    # ---------------------------------------------------------------- start and end

    @override
    def resume(self) -> Resumed:
        if self.saved is None:
            return Resumed(self.position)
        self.restore(self.saved.state)
        return Resumed(self.position, self.saved.notes)

    @override
    def start(self) -> None:
        if self.saved is not None and self.saved.state["random"] is not None:
            self.set_random_state(self.saved.state["random"][self.world.rank])

    @override
    def leave(self) -> None:
        self.world.leave()

    def next_batch(self) -> Any:
        """Take the next batch of this rank, and count its samples and units."""
        batch = next(self.loaded.train)
        self.samples += self.task.samples(batch)
        self.units += self.task.units(batch)
        self.clock.lap(DATA)
        return batch

    def batches_of_step(self) -> Iterator[tuple[Any, NDArray[Any] | None]]:
        """The batches of this rank in a step. Each comes with its share where the task has weights.

        The share of a batch is its weight over the mean weight of all batches of the step, on all ranks. One batch is a
        whole step where a rank is alone and makes one micro step: it has no share, and a mean needs none.
        """
        micro_steps = self.settings.gradient_accumulation_steps
        if not (self.task.weighted and self.world.size * micro_steps > 1):
            yield from ((self.next_batch(), None) for _ in range(micro_steps))
            return
        batches = [self.next_batch() for _ in range(micro_steps)]
        weights = np.stack([self.numbers(self.task.weight(batch)) for batch in batches]).astype(np.float64)
        mean = self.world.sum(weights.sum(0)) / (self.world.size * micro_steps)
        yield from zip(batches, weights / np.maximum(mean, np.finfo(np.float64).tiny))

    @override
    def learning_rate(self, step: int) -> float:
        return self.settings.lr if self.schedule is None else self.rate(self.schedule, step - 1)

    @override
    def send(self, units: int, losses: list[Any], extra: list[Any]) -> Sums:
        return self.world.sum(np.array([units, self.mean(losses), *map(float, extra)])).tolist

    @override
    def evaluate(self, progress: Progress) -> dict[str, float]:
        statistics = self.statistics()
        if statistics and self.world.size > 1:
            for tensor, value in zip(statistics, self.world.broadcast([*map(self.numbers, statistics)])):
                self.assign(tensor, value)
        counts = []
        with self.evaluating():
            for batch in self.loaded.evaluation():
                progress()
                counts.append(self.count(batch))
        return self.task.measure(self.world.sum(sum(map(self.numbers, counts), np.zeros(self.task.counts))))

    @override
    def snapshot(self, position: Position) -> None:
        random_states = self.world.gather(self.random_state())
        if self.world.rank == 0:
            header = {"identity": identity(self.config, self.world.size), "progress": asdict(position)}
            content = io.BytesIO()  # NumPy seeks in a file, to fill in sizes
            self.write_state(content, {**header, "random": random_states, **self.state()})
            save(checkpoint_folder(), position.step, lambda file: file.write(content.getbuffer()))
        self.world.wait()

    @override
    def identities(self) -> dict[str, Any]:
        settings, schedule = self.settings, self.schedule
        return {
            "network": self.network_identity(),
            "optimizer": self.optimizer_identity(),
            "schedule": schedule_identity(
                self.config,
                settings,
                self.train_batches,
                schedule,
                lambda intervals: self._rates(schedule, intervals),
                lambda made_by, intervals: self._rates(self._schedule_of_case(made_by), intervals),
            ),
        }

    def _rates(self, schedule: Any, intervals: Intervals) -> dict[str, float]:
        lr = self.settings.lr
        return {str(step): lr if schedule is None else self.rate(schedule, done) for step, done in intervals.items()}

    def _schedule_of_case(self, made_by: str) -> Any:
        """The schedule of the configuration, by its classes as they are imported again from the disk."""
        if not made_by:
            return None
        with imported_anew([*self.schedules, made_by.rpartition(".")[0]]):
            description = {**self.config["lr_scheduler"], "_target_": made_by}
            return self.make_schedule({**self.config, "lr_scheduler": description})

    @override
    def framework_figures(self, trained: Trained) -> FrameworkFigures:
        memory, memory_kind = self.device.peak_memory()
        digest, parameters = hashlib.sha256(), 0
        for array in self.trained_arrays():
            digest.update(array.tobytes())
            parameters += array.size
        return FrameworkFigures(
            parameters=parameters,
            parameters_checksum=digest.hexdigest()[:16],
            peak_memory=memory,
            peak_memory_kind=memory_kind,
            forward=forward_by_task(self.task.operations(self.network, self.config), trained),
        )
