"""TensorFlow's calls: a tf.function that makes a step; evaluations, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from typing_extensions import override

from flagperf.contract.components import component
from flagperf.trainer.data.datasets import Loaded, Opened
from flagperf.trainer.loop.standard import StandardEngine
from flagperf.trainer.loop.supported import PYTORCH_ONLY
from flagperf.trainer.tensorflow2.data import load
from flagperf.trainer.tensorflow2.device import TensorFlowDevice
from flagperf.trainer.tensorflow2.identity import fingerprint, optimizer_of
from flagperf.trainer.tensorflow2.ranks import World

POLICY = {"amp_fp16": "mixed_float16", "amp_bf16": "mixed_bfloat16"}


class TensorFlowEngine(StandardEngine):
    """The training of this rank by TensorFlow."""

    title = "TensorFlow"
    world_class = World
    device_class = TensorFlowDevice
    fixed: Mapping[str, Any] = {**PYTORCH_ONLY, "ddp": {}}  # of the class
    joins_first = True  # TensorFlow joins no ranks after its first operation
    versions: Mapping[str, str] = {"tensorflow": tf.__version__, "keras": keras.__version__}
    world: World

    # ---------------------------------------------------------------- the start

    @override
    def seed(self, number: int) -> None:
        keras.utils.set_random_seed(number % 2**32)  # Python, NumPy and TensorFlow

    @override
    def load(self, opened: Opened) -> Loaded:
        return load(opened, self.settings)

    @override
    def make_network(self) -> keras.Model:
        keras.mixed_precision.set_global_policy(POLICY.get(self.settings.precision, "float32"))
        return super().make_network()

    def make_optimizer(self, rate: Any) -> keras.optimizers.Optimizer:
        """The optimizer of the configuration. It clips and, in fp16, scales the loss."""
        self.scaled = self.settings.precision == "amp_fp16"
        clip = self.settings.clip_grad
        optimizer = component(self.config, "optimizer", learning_rate=rate, global_clipnorm=clip)
        if self.scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(self.network.trainable_variables)
        return optimizer

    # ---------------------------------------------------------------- network and state

    @override
    def weights(self) -> Mapping[str, Any]:
        return {weight.path: weight for weight in self.network.weights}

    @override
    def fill(self, weights: Mapping[str, NDArray[Any]]) -> None:
        for name, weight in self.weights().items():
            weight.assign(weights[name])

    @override
    def trained_arrays(self) -> Iterable[NDArray[Any]]:
        return map(np.asarray, self.network.trainable_weights)

    @override
    def statistics(self) -> list[Any]:
        return list(self.network.non_trainable_weights)

    @override
    def assign(self, tensor: Any, value: NDArray[Any]) -> None:
        tensor.assign(value)

    @override
    def state(self) -> Mapping[str, Any]:
        return {"arrays": {name: np.asarray(variable) for name, variable in self._variables().items()}}

    @override
    def restore(self, state: Mapping[str, Any]) -> None:
        for name, variable in self._variables().items():
            variable.assign(state["arrays"][name])

    def _variables(self) -> dict[str, Any]:
        """All variables of network and optimizer, which they always have in the same order.

        Generators of dropout and the optimizer's count of steps are among them, and a schedule has no other state.
        """
        parts = {"network": self.network, "optimizer": self.optimizer}
        return {f"{name}/{i}": variable for name, part in parts.items() for i, variable in enumerate(part.variables)}

    @override
    def network_identity(self) -> Mapping[str, Any]:
        return fingerprint(self.network)

    @override
    def optimizer_identity(self) -> Mapping[str, Any]:
        return optimizer_of(self.optimizer, self.network)

    @override
    def rate(self, schedule: Any, interval: int) -> float:
        return float(schedule(interval))

    # ---------------------------------------------------------------- steps and evaluations

    @override
    def step(self, number: int) -> None:
        given = [
            (batch, None if share is None else tf.constant(share, tf.float32))
            for batch, share in self.batches_of_step()
        ]
        loss, norm, self.scale = self._train_step(tuple(given))
        self.losses = [loss]
        self.grad_norm = None if self.settings.clip_grad is None else norm

    @override
    def loss_scale(self) -> Any:
        return self.scale if self.scaled else None

    @tf.function  # type: ignore[untyped-decorator]
    def _train_step(self, given: tuple[Any, ...]) -> tuple[tf.Tensor, ...]:
        """One optimizer step, in a graph. Returns this rank's mean loss, the norm of all gradients, the loss scale.

        Args:
            given: the batch of each micro step, and its share or None.
        """
        scale = tf.convert_to_tensor(self.optimizer.dynamic_scale if self.scaled else 1.0)
        loss, gradients = self.world.strategy.run(self._averaged_gradients, args=(given,))
        norm = tf.linalg.global_norm(gradients) / scale
        self.optimizer.apply(gradients, self.network.trainable_variables)  # takes the scale off, and clips
        return loss, norm, scale

    def _averaged_gradients(self, given: tuple[Any, ...]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """This rank's mean loss, and the mean of the gradients over its micro steps and all ranks."""
        losses, sums = [], None
        for batch, share in given:
            with tf.GradientTape() as tape:
                if share is None:
                    loss = self.task.loss(self.network, batch)
                else:
                    loss = tf.reduce_sum(self.task.terms(self.network, batch) * share)
                scaled = self.optimizer.scale_loss(loss) / len(given)
            gradients = tape.gradient(scaled, self.network.trainable_variables)
            sums = gradients if sums is None else [total + added for total, added in zip(sums, gradients)]
            losses.append(loss)
        context = tf.distribute.get_replica_context()
        return tf.add_n(losses) / len(losses), context.all_reduce(tf.distribute.ReduceOp.MEAN, sums)

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def count(self, batch: Any) -> tf.Tensor:
        """The task's counts of a batch of the evaluation, in a graph."""
        return self.task.count(self.network, batch)
