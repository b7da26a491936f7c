"""The training of step_cost.py, with its baseline (bare/mlp.py) beside it in the same process, in turns."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import mlp
from bare.mlp import steps
from torch import Tensor, nn

BLOCK = 50  # steps of either; a training logs every tenth
FIRST, LAST = 10, 130  # measured blocks: the first ones warm up
Reading = tuple[float, float]  # CPU and wall seconds


class InTurns(mlp.Classification):
    """After each block of steps, as many steps of the baseline. Prints the seconds of a step of both as one JSON line.

    Two processes one after the other differ by more than the cost of the loop, and so do two minutes of one machine. In
    one process, the blocks beside each other have the same memory, clock and load. The figure is the median over the
    blocks.
    """

    def __init__(self) -> None:
        self.step = 0
        self.baseline = steps()
        self.ours: list[Reading] = []
        self.bare: list[Reading] = []

    def loss(self, network: nn.Module, batch: Any) -> Tensor:
        if self.step % BLOCK == 0:
            self._turn()
        self.step += 1
        return super().loss(network, batch)

    def _turn(self) -> None:
        if self.step:
            self.ours.append(_since(self.began))
        self.bare.append(_seconds(lambda: next(islice(self.baseline, BLOCK - 1, None))))
        if self.step == LAST * BLOCK:
            figures = {name: _per_step(getattr(self, name)[FIRST:LAST]) for name in ("ours", "bare")}
            print(json.dumps(figures), flush=True)
        self.began = _now()


def _now() -> Reading:
    return time.process_time(), time.perf_counter()


def _since(began: Reading) -> Reading:
    return time.process_time() - began[0], time.perf_counter() - began[1]


def _seconds(work: Callable[[], object]) -> Reading:
    began = _now()
    work()
    return _since(began)


def _per_step(readings: list[Reading]) -> list[float]:
    """Median CPU and wall seconds of a step."""
    return [statistics.median(values) / BLOCK for values in zip(*readings, strict=True)]
