"""How the ranks of Paddle join and sum."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle import distributed as dist
from typing_extensions import override

from flagperf.trainer.array_ranks import ArrayRanks

if TYPE_CHECKING:
    from typing_extensions import Self


class World(ArrayRanks):
    """Ranks that talk through paddle.distributed."""

    def join(self, backend: str, timeout: float) -> Self:
        """Join the process group, by the variables PADDLE_… that conf/framework/paddle.yaml gives each rank."""
        if self.size > 1:
            os.environ.update(PADDLE_DISTRI_BACKEND=backend, PADDLE_PG_TIMEOUT=str(int(timeout * 1000)))
            dist.init_parallel_env()
        return self

    @override
    def leave(self) -> None:
        if self.size > 1:
            self.wait()
            dist.destroy_process_group()

    @override
    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.size == 1:
            return values
        summed = paddle.to_tensor(values, dtype="float64")
        dist.all_reduce(summed)
        return np.asarray(summed.numpy())
