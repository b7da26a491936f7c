"""Factors of the learning rate of the original recipes, from which each framework makes its schedule."""

from __future__ import annotations

from collections.abc import Callable


def decay_from_start(steps: int, warmup: float) -> Callable[[int], float]:
    """Optimizer steps that are done → 1 - step / steps for the next, counted from 1; in the warm-up it grows from 0.

    `warmup` is a share of `steps`, in whole steps. It is FlagPerf's schedule of bert: the decay begins with the first
    step, so lr falls a little at the end of the warm-up.
    """
    grown = int(warmup * steps)

    def factor(done: int) -> float:
        step = done + 1
        return step / grown if step < grown else max(0.0, 1 - step / steps)

    return factor
