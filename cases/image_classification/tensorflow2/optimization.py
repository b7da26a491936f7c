"""The learning rate of FlagPerf's resnet50 for Keras's optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


class WarmupSteps(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """From 0 to lr in the first epochs, then a factor of it after each of some epochs; it changes with each step.

    Args:
        lr: after the warm-up.
        steps_per_epoch: optimizer steps.
        warmup: epochs in which it grows.
        boundaries: epochs after which it falls.
        gamma: factor of each fall.
    """

    def __init__(self, lr: float, steps_per_epoch: int, warmup: float, boundaries: Sequence[int], gamma: float) -> None:
        self.lr, self.gamma = lr, gamma
        self.grown = float(warmup * steps_per_epoch)
        self.falls = [float(epoch * steps_per_epoch) for epoch in boundaries]

    def __call__(self, step: Any) -> tf.Tensor:
        """The rate of the step after the given number of steps."""
        done = tf.cast(step, tf.float32)
        fallen = tf.reduce_sum(tf.cast(done >= tf.constant(self.falls, tf.float32), tf.float32))
        return tf.where(done < self.grown, self.lr * done / max(self.grown, 1.0), self.lr * self.gamma**fallen)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the schedule, in steps."""
        return {"lr": self.lr, "gamma": self.gamma, "grown": self.grown, "falls": self.falls}
