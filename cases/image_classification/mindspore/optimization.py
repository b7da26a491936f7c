"""The learning rate of resnet50 for MindSpore's optimizers."""

from __future__ import annotations

import mindspore
from mindspore import Tensor, ops
from mindspore.nn.learning_rate_schedule import LearningRateSchedule


class Stairs(LearningRateSchedule):  # type: ignore[misc]
    """A factor of lr after every so many epochs.

    Args:
        lr: at the beginning.
        steps_per_epoch: optimizer steps.
        epochs: between two falls.
        gamma: factor of each fall.
    """

    def __init__(self, lr: float, steps_per_epoch: int, epochs: int, gamma: float) -> None:
        super().__init__()
        self.lr, self.gamma, self.steps = lr, gamma, epochs * steps_per_epoch

    def construct(self, global_step: Tensor) -> Tensor:
        """The rate of the step after the given number of steps."""
        fallen = ops.floor_divide(global_step, self.steps)
        return self.lr * ops.pow(self.gamma, fallen.astype(mindspore.float32))
