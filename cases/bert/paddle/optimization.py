"""The learning rate of FlagPerf's bert for Paddle's optimizers."""

from __future__ import annotations

from paddle.optimizer.lr import LambdaDecay

from cases.schedules import decay_from_start


def linear_decay_from_start(lr: float, steps: int, warmup: float) -> LambdaDecay:
    """The schedule of bert, from `steps`, and `warmup` as a share of them; the same as PyTorch's."""
    return LambdaDecay(lr, decay_from_start(steps, warmup))
