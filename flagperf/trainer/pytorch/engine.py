"""The engine of PyTorch: steps, evaluations and checkpoints, by a strategy that divides the work over the ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from flagperf.contract.perflog import PerfLog
from flagperf.errors import TrainingError
from flagperf.trainer.loop.agenda import Position
from flagperf.trainer.loop.clock import COMPUTE, DATA, WAIT
from flagperf.trainer.loop.engine import Engine, Progress, Resumed
from flagperf.trainer.loop.records import Sums
from flagperf.trainer.loop.trained import FrameworkFigures, Trained, follow
from flagperf.trainer.pytorch.arrival import Arrival
from flagperf.trainer.pytorch.by_version import local_parts
from flagperf.trainer.pytorch.checkpoint import restore, snapshot
from flagperf.trainer.pytorch.checksum import checksum, difference_between_copies
from flagperf.trainer.pytorch.compared import Comparisons
from flagperf.trainer.pytorch.device import clock_for, device_name
from flagperf.trainer.pytorch.host_random import HostRandom
from flagperf.trainer.pytorch.identity import identities
from flagperf.trainer.pytorch.loading import on_device
from flagperf.trainer.pytorch.parts import Parts
from flagperf.trainer.pytorch.probe import Probe
from flagperf.trainer.pytorch.randomness import set_random_state
from flagperf.trainer.pytorch.ranks import World
from flagperf.trainer.pytorch.step_loss import Given, StepLoss
from flagperf.trainer.pytorch.task import Task
from flagperf.trainer.pytorch.waits import Waits

RECENT = 100  # steps whose losses stay on the device, to find the step in which the training diverged


class TorchEngine(Engine):
    """Trains the network of some parts. Losses and norm of a step stay on the device, since few steps are recorded."""

    world: World
    batches: Generator[Any]  # `resume` makes these four
    given: Iterator[Given]  # the batches, each with its share where it has one
    model: nn.Module  # the training step calls it
    comparisons: Comparisons

    def __init__(self, parts: Parts) -> None:
        self.parts, self.config, self.settings, self.world = parts, parts.config, parts.settings, parts.world
        self.train_batches, self.counts = parts.datasets.train_batches, parts.datasets.counts
        self.rendezvous, self.device_name = parts.rendezvous, device_name(parts.device)
        self.versions = {"torch": torch.__version__}
        self.clock = clock_for(parts.device)
        self.lag = 0 if parts.device.type == "cpu" else 1
        self.strategy, self.optimizer, self.precision = parts.strategy, parts.optimizer, parts.precision
        drawn = HostRandom(parts.settings.seed + parts.strategy.share.rank)
        self.host_random = drawn if parts.settings.random_numbers == "host" else None
        self.micro_steps = parts.settings.gradient_accumulation_steps
        self.step_loss = StepLoss(parts.task, parts.world, self.micro_steps)
        self.loss, self.loss_of = (self._cast(function) for function in (parts.task.loss, self.step_loss.of))
        limit = parts.settings.clip_grad
        clip = None if limit is None else partial(parts.strategy.clip, parts.parameters, limit)
        plain = clip is None and parts.precision.scaler is None
        self._update: Callable[[], Tensor | None] = (
            parts.optimizer.step if plain else partial(parts.precision.step, parts.optimizer, clip)
        )
        by_epoch = parts.settings.lr_interval == "epoch"
        self.scheduler = None if by_epoch else parts.scheduler
        self.epoch_scheduler = parts.scheduler if by_epoch else None
        self._recent: deque[tuple[int, list[Tensor]]] = deque(maxlen=RECENT)
        self._waits: Waits | None = None

    def _cast(self, loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """A loss as the training computes it: under autocast, with random numbers of the host where these are set."""
        return self.precision.cast(loss if self.host_random is None else self.host_random.around(loss))

    # ---------------------------------------------------------------- start and end

    @override
    def identities(self) -> dict[str, Any]:
        self.libraries = torch.ops.loaded_libraries
        return identities(self.parts)

    @override
    def resume(self) -> Resumed:
        parts, folder = self.parts, self.config["resume"]
        resumed, self._random_state = (Resumed(Position()), None) if folder is None else restore(parts, folder)
        self.train_batches.start_at(resumed.position.epoch, resumed.position.step_in_epoch)
        self.batches = self._counted()
        self.given = self._of_steps() if self.step_loss.by_shares else ((batch,) for batch in self.batches)
        self.model, self.pipeline = parts.wrapped(), parts.strategy.pipeline(parts.network)
        self.arrival = self._arrival()
        self._add_gradients = self._gradients()
        self.comparisons = Comparisons(parts, self.loss, self.model)
        self.check_due = self.comparisons.due
        return resumed

    @override
    def watch(self, perflog: PerfLog) -> None:
        if self.world.size > 1:
            self._waits = Waits(perflog)

    @override
    def unwatched(self) -> AbstractContextManager[None]:
        return nullcontext() if self._waits is None else self._waits.paused()

    @override
    def start(self) -> None:
        if self._random_state is not None:
            set_random_state(self._random_state, self.parts.device)

    @override
    def close(self) -> None:
        if self._waits is not None:
            self._waits.stop()
        self.batches.close()
        self.parts.datasets.close()

    @override
    def framework_figures(self, trained: Trained) -> FrameworkFigures:
        from flagperf.trainer.pytorch.finish import framework_figures  # late: the first step does not wait for it

        return framework_figures(self.parts)

    @override
    def probe(self) -> dict[str, Any]:
        return Probe(self.parts.device, self.world).measure()

    @override
    def leave(self) -> None:
        self.world.disconnect()

    # ---------------------------------------------------------------- steps

    def step(self, number: int) -> None:
        """Make a step. Its last micro step averages the gradients over the ranks."""
        self.losses: list[Tensor] = []
        self._recent.append((number, self.losses))
        self._add_gradients()
        self._learning_rate = self.optimizer.param_groups[0]["lr"]
        self.grad_norm = self._update()
        self.parts.update_average(number)
        if self.settings.checksum_freq and number % self.settings.checksum_freq == 0:
            self.checksums = self._checksums()
        self.optimizer.zero_grad()
        if self.scheduler is not None:
            self.scheduler.step()

    def _gradients(self) -> Callable[[], None]:
        """The function that adds up the gradients of a step. The choice is made once, since a small step is short."""
        if self.pipeline is not None:
            add = self._pipeline_step
        else:
            add = self._micro_step if self.micro_steps == 1 else self._micro_steps
        if isinstance(self.strategy.computing(), nullcontext):
            return add

        def within_context() -> None:
            with self.strategy.computing():
                add()

        return within_context

    def _pipeline_step(self) -> None:
        batches = [next(self.given) for _ in range(self.micro_steps)]
        self.clock.lap(DATA)
        loss = lambda network, given: self.loss_of(network, *given)  # noqa: E731
        self.losses += self.pipeline.train(batches, loss, self.parts.device)

    def _micro_steps(self) -> None:
        for _ in range(self.micro_steps - 1):
            with self.strategy.accumulating():
                self._micro_step(last=False)
            self.clock.lap(COMPUTE)
        self._micro_step()

    def _micro_step(self, last: bool = True) -> None:
        """`last`: of its step. It ends with the wait for the other ranks, where the strategy waits there."""
        given = next(self.given)
        self.clock.lap(DATA)
        loss = self.loss_of(self.model, *given)
        arrival = self.arrival if last else None
        if arrival is not None:
            arrival.expect(loss)
        self.precision.backward(loss, self.micro_steps)
        if arrival is not None:
            arrival.passed()
        self.losses.append(loss.detach())
        self.batch = given[0] if self.check_due else None  # that of the last micro step

    def _arrival(self) -> Arrival | None:
        """Notes the waits for the other ranks; None where the strategy waits elsewhere."""
        if self.strategy.distributed is None:
            return None
        arrival = Arrival(self.clock)
        if not self.settings.compile:  # torch.compile would compile these notes
            arrival.watch_buffers(self.strategy.distributed)
        return arrival

    def _counted(self) -> Generator[Any]:
        """Training batches on the device, counted when they are taken. Synthetic batches are loaded here, others later.

        Of ranks that train on the same data, only the first counts.
        """
        task, to_device, device = self.parts.task, self.parts.to_device, self.parts.device
        counts = self.strategy.mesh.counts_samples(self.world.rank)
        counts_samples = type(task).units is Task.units

        def move(batch: Any) -> tuple[int, int, Any]:
            samples: int = task.samples(batch)
            return samples, samples if counts_samples else task.units(batch), to_device(batch)

        moved: Iterable[tuple[int, int, Any]] = on_device(self.parts.datasets.train_loader, move, device)
        return self._take(cycle(list(moved)) if self.settings.synthetic else moved, counts)

    def _of_steps(self) -> Generator[Given]:
        """The batches with their shares in their steps.

        The batches of a step are kept until those of the next are loaded: `on_device` may load into the memory of a
        batch that nobody keeps, while the device still computes on it.
        """
        while True:
            batches = list(islice(self.batches, self.micro_steps))
            self.clock.lap(DATA)
            given = self.step_loss.given(batches)
            self.clock.lap(COMPUTE if self.arrival is None else WAIT)
            yield from given

    def _take(self, moved: Iterable[tuple[int, int, Any]], counts: bool) -> Generator[Any]:
        for samples, units, batch in moved:
            if counts:
                self.samples += samples
                self.units += units
            yield batch

    @override
    def end_epoch(self) -> None:
        if self.epoch_scheduler is not None:
            self.epoch_scheduler.step()

    @override
    def learning_rate(self, step: int) -> float:
        return float(self._learning_rate)

    @override
    def loss_scale(self) -> Tensor | None:
        return self.precision.loss_scale()

    def send(self, units: int, losses: list[Tensor], extra: list[Tensor]) -> Sums:
        """Send a step's numbers without waiting for a device."""
        loss = losses[0] if len(losses) == 1 else torch.stack(losses).mean()
        numbers = [loss, *extra]
        if not self.lag:
            values = [float(units), *(number.item() for number in numbers)]
            if self.world.size == 1:
                return lambda: values
            return self.world.sum(torch.tensor(values, dtype=torch.float64)).tolist
        summed = torch.stack([torch.full_like(numbers[0], units, dtype=torch.float32), *(n.float() for n in numbers)])
        self.world.sum(summed)
        return torch.empty(summed.shape, pin_memory=True).copy_(summed, non_blocking=True).tolist

    def diverged(self, step: int) -> int | None:  # noqa: ARG002
        """The first of the last RECENT steps with such a loss. The host waits for the device."""
        return next((number for number, losses in self._recent if not torch.stack(losses).isfinite().all()), None)

    @override
    def data_rank(self, rank: int) -> int:
        return self.strategy.mesh.data_rank(rank)

    # ---------------------------------------------------------------- evaluations, checkpoints, checks

    def evaluate(self, progress: Progress) -> dict[str, float]:
        """Metrics of the network itself, without its wrappers."""
        parts, network = self.parts, self.parts.evaluated
        assert parts.datasets.eval_loader is not None  # else no setting asks for an evaluation
        self.strategy.copy_buffers(network)
        batches = on_device(parts.datasets.eval_loader, parts.to_device, parts.device)
        network.eval()
        drawing = nullcontext() if self.host_random is None else self.host_random.drawing()
        strategy = self.strategy
        evaluating = strategy.evaluating(network, parts.task, batches, parts.datasets.eval_batches)
        with torch.no_grad(), self.precision.autocast, strategy.computing(), evaluating as each, drawing:
            metrics = parts.task.evaluate(network, _with_progress(each, progress), parts.device)
        network.train()
        return self.strategy.agreed(metrics)

    def _checksums(self) -> dict[str, str]:
        """Checksums of the losses of this rank, of the gradients as the optimizer used them, and of the parameters."""
        parameters = list(self.strategy.held(self.parts.network))
        gradients = [parameter.grad for parameter in self.parts.parameters if parameter.grad is not None]
        return {
            "loss": checksum(self.losses),
            "gradients": checksum(local_parts(gradients)),
            "parameters": checksum(parameters),
        }

    @override
    def check_copies(self, step: int) -> None:
        if self.world.size == 1:
            return
        difference = difference_between_copies(self.parts.network, self.strategy, self.world)
        if difference is None:
            return
        rank, copy, tensor = difference
        differ = f"differ from those of rank {copy} after step {step}, first in {tensor}"
        if rank == self.world.rank:
            raise TrainingError(f"silent data corruption: the parameters of this rank {differ}")
        follow(f"silent data corruption: the parameters of rank {rank} {differ}")

    @override
    def snapshot(self, position: Position) -> None:
        snapshot(self.parts, position)

    @override
    def finish_snapshot(self) -> None:
        if self.strategy.background is not None:
            self.strategy.background.finish()
        self.world.wait()

    def check(self) -> None:
        """Compare a vendor's network with the case's."""
        self.comparisons.compare(self.batch)
        self.check_due = self.comparisons.due

    @override
    def figures(self) -> dict[str, float | None]:
        return self.comparisons.figures()


def _with_progress(batches: Iterator[Any], progress: Progress) -> Iterator[Any]:
    for batch in batches:
        progress()
        yield batch
