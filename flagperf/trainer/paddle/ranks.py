"""How the ranks of Paddle join, and tell each other sums, numbers and values."""

from __future__ import annotations

import os
from typing import Any

import paddle
from paddle import Tensor
from paddle import distributed as dist

from flagperf.trainer.ranks import Ranks


class World(Ranks):
    """Ranks that talk through paddle.distributed."""

    def connect(self, backend: str, timeout: float) -> None:
        """Join the process group, by the variables PADDLE_… that conf/framework/paddle.yaml gives each rank.

        Args:
            timeout: seconds a collective may wait.
        """
        if self.size > 1:
            os.environ.update(PADDLE_DISTRI_BACKEND=backend, PADDLE_PG_TIMEOUT=str(int(timeout * 1000)))
            dist.init_parallel_env()

    def disconnect(self) -> None:
        """Leave the process group, when every rank is here."""
        if self.size > 1:
            self.wait()
            dist.destroy_process_group()

    def sum(self, values: Tensor) -> Tensor:
        """Sum over the ranks, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def largest(self, value: float) -> float:
        if self.size == 1:
            return value
        number = paddle.to_tensor([value], dtype="float64")
        dist.all_reduce(number, dist.ReduceOp.MAX)
        return float(number.item())

    def gather(self, value: Any) -> list[Any]:
        if self.size == 1:
            return [value]
        values: list[Any] = []
        dist.all_gather_object(values, value)
        return values
