"""What MindSpore does in a training: steps in PyNative mode by value_and_grad, evaluations, checkpoints."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, amp, ops

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.records import Sums
from flagperf.trainer.loop.training import Training as AnyTraining
from flagperf.trainer.mindspore.build import Parts
from flagperf.trainer.mindspore.checkpoint import restore, snapshot
from flagperf.trainer.mindspore.device import clock_for


class Training(AnyTraining):
    """One training on this rank; `run` runs it and says what it measured."""

    def __init__(self, parts: Parts, perflog: PerfLog) -> None:
        super().__init__(parts, perflog, clock_for(parts.device))
        self.parts, self.world = parts, parts.world
        self.network, self.optimizer, self.scaler = parts.network, parts.optimizer, parts.scaler
        self.gradients = mindspore.value_and_grad(self.forward, None, self.optimizer.parameters, has_aux=True)
        self.average = self.world.averaging(self.optimizer.parameters)
        self.network.set_train(True)
        if parts.saved is not None:
            restore(parts.stateful, parts.saved)

    def started(self) -> None:
        if self.parts.saved is not None:
            mindspore.set_rng_state(Tensor(self.parts.saved.random))

    def make_step(self) -> None:
        """Gradients of the micro steps are added up, averaged over the ranks, clipped and applied."""
        self.losses, sums = [], ()
        for _ in range(self.settings.gradient_accumulation_steps):
            (_, loss), gradients = self.gradients(self.take())
            sums = tuple(map(ops.add, sums, gradients)) if sums else gradients
            self.losses.append(loss)
        averaged = self.average(sums)
        if self.scaler is None:
            self.optimizer(self.clipped(averaged))
            return
        gradients, finite = self.clipped(self.scaler.unscale(averaged)), amp.all_finite(averaged)
        self.scaler.adjust(finite)
        if finite:
            self.optimizer(gradients)

    def learning_rate(self) -> float:
        schedule, done = self.parts.schedule, self.position.step - 1
        return self.settings.lr if schedule is None else float(schedule(Tensor([done], mindspore.int32)))

    def loss_scale(self) -> Any:
        return None if self.scaler is None else self.scaler.scale_value

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        """What is differentiated, the loss of a micro step with its share of the step and the scale; and the loss."""
        loss = self.parts.task.loss(self.network, batch)
        share = loss / self.settings.gradient_accumulation_steps
        return (share if self.scaler is None else self.scaler.scale(share)), loss

    def clipped(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Gradients whose norm is above the limit, scaled down to it."""
        if self.settings.clip_grad is None:
            return gradients
        self.grad_norm = global_norm(gradients)
        factor = ops.clamp(self.settings.clip_grad / (self.grad_norm + 1e-6), max=1.0)
        return tuple(gradient * factor for gradient in gradients)

    def evaluate(self) -> dict[str, float]:
        self.share_statistics()
        counted = np.zeros(self.parts.task.counts)
        self.network.set_train(False)
        for batch in self.parts.data.evaluation():
            self.heartbeat("evaluate")
            counted += [float(number) for number in self.parts.task.count(self.network, batch)]
        self.network.set_train(True)
        return self.parts.task.measure(self.world.sum(counted))

    def share_statistics(self) -> None:
        """Take over what rank 0's batch norm keeps: each rank has its own, and all must evaluate the same network."""
        kept = self.network.untrainable_params()
        if self.world.size > 1 and kept:
            numbers = self.world.gather([one.asnumpy() for one in kept] if self.world.rank == 0 else None)[0]
            for one, value in zip(kept, numbers):
                one.set_data(Tensor(value, one.dtype))

    def snapshot(self) -> None:
        snapshot(self.parts.config, self.world, self.parts.stateful, self.position)

    def send(self, units: int, losses: list[Tensor], extra: list[Tensor]) -> Sums:
        numbers = np.array([units, np.mean([float(loss) for loss in losses]), *map(float, extra)])
        return self.world.sum(numbers).tolist


def global_norm(tensors: tuple[Tensor, ...]) -> Tensor:
    """The norm of all their numbers."""
    return ops.sqrt(sum(ops.square(tensor).sum() for tensor in tensors))
