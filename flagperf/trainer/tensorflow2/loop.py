"""What TensorFlow does in a training: a tf.function that makes a step, evaluations, checkpoints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from flagperf.contract.perflog import PerfLog
from flagperf.trainer.loop.clock import Clock
from flagperf.trainer.loop.records import Sums
from flagperf.trainer.loop.training import Training as AnyTraining
from flagperf.trainer.tensorflow2.build import Parts
from flagperf.trainer.tensorflow2.checkpoint import restore, snapshot


class Training(AnyTraining):
    """One training on this rank; `run` runs it and says what it measured."""

    def __init__(self, parts: Parts, perflog: PerfLog) -> None:
        super().__init__(parts, perflog, Clock())
        self.parts, self.world, self.task = parts, parts.world, parts.task
        self.network, self.optimizer = parts.network, parts.optimizer
        self.scaled = self.settings.precision == "amp_fp16"
        if parts.saved is not None:
            restore(self.stateful, parts.saved)

    @property
    def stateful(self) -> dict[str, Any]:
        """What a checkpoint keeps; the schedule has no state but the optimizer's count of steps."""
        return {"network": self.network, "optimizer": self.optimizer}

    def make_step(self) -> None:
        batches = tuple(self.take() for _ in range(self.settings.gradient_accumulation_steps))
        loss, norm, self.scale = self.train_step(batches)
        self.losses = [loss]
        self.grad_norm = None if self.settings.clip_grad is None else norm

    def learning_rate(self) -> float:
        schedule = self.parts.schedule
        return self.settings.lr if schedule is None else float(schedule(self.position.step - 1))

    def loss_scale(self) -> Any:
        return self.scale if self.scaled else None

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
            sums = gradients if sums is None else [one + other for one, other in zip(sums, gradients)]
            losses.append(loss)
        context = tf.distribute.get_replica_context()
        return tf.add_n(losses) / len(losses), context.all_reduce(tf.distribute.ReduceOp.MEAN, sums)

    def evaluate(self) -> dict[str, float]:
        self.share_statistics()
        counted = np.zeros(self.task.counts)
        assert self.parts.data.eval is not None  # or no setting asks for an evaluation
        for batch in self.parts.data.eval:
            self.heartbeat("evaluate")
            counted += self.count_batch(batch).numpy()
        return self.task.measure(self.world.sum(counted))

    def share_statistics(self) -> None:
        """Take over what rank 0's batch norm keeps: each rank has its own, and all must evaluate the same network."""
        kept = self.network.non_trainable_weights
        if self.world.size > 1 and kept:
            numbers = self.world.of_first(np.concatenate([np.ravel(weight) for weight in kept]).astype(np.float64))
            ends = np.cumsum([math.prod(weight.shape) for weight in kept])
            for weight, part in zip(kept, np.split(numbers, ends[:-1])):
                weight.assign(part.reshape(weight.shape))

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def count_batch(self, batch: Any) -> tf.Tensor:
        """What the task counts of a batch of the evaluation, in a graph."""
        return self.task.count(self.network, batch)

    def snapshot(self) -> None:
        snapshot(self.parts.config, self.world, self.stateful, self.position)

    def send(self, units: int, losses: list[tf.Tensor], extra: list[tf.Tensor]) -> Sums:
        numbers = np.array([units, np.mean([float(loss) for loss in losses]), *map(float, extra)])
        return self.world.sum(numbers).tolist
