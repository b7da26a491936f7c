"""How the ranks of MindSpore join, and tell each other sums, numbers and values."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Callable, Tuple

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.communication.management import _init_with_store
from mindspore.mint.distributed import TCPStore
from numpy.typing import NDArray

from flagperf.trainer.ranks import Ranks

TIMEOUTS = ("MS_CPU_COMM_OP_TIMEOUT", "HCCL_EXEC_TIMEOUT")  # seconds that a collective waits: MCCL (else 30), HCCL
Tensors = Tuple[Tensor, ...]
WORD = 4  # bytes of an int32, which each backend gathers


class World(Ranks):
    """Ranks that talk through MindSpore's collectives: HCCL on Ascend, MCCL on a CPU."""

    def connect(self, backend: str, timeout: float) -> None:
        """Join the other ranks in a store that rank 0 serves, at MASTER_ADDR and MASTER_PORT.

        MindSpore's other way wants one more process, a scheduler. `mint.distributed.init_process_group` has this one
        for HCCL alone, by the function that is called here.

        Args:
            timeout: seconds a collective may wait, and in which all must have come.
        """
        if self.size == 1:
            return
        address = socket.gethostbyname(os.environ["MASTER_ADDR"])
        patience = timedelta(seconds=timeout)
        for name in TIMEOUTS:
            os.environ.setdefault(name, str(int(timeout)))
        store = TCPStore(address, int(os.environ["MASTER_PORT"]), self.size, self.rank == 0, patience)
        _init_with_store(backend, patience, self.size, self.rank, store)

    def leave(self) -> None:
        """Wait until all ranks are here. One that knows it ends, which may break the wait of another: all were here."""
        with contextlib.suppress(RuntimeError):
            self.wait()

    def averaging(self, parameters: Sequence[Parameter]) -> Callable[[Tensors], Tensors]:
        """What makes the gradients of parameters their means over the ranks."""
        if self.size == 1:
            return lambda gradients: gradients
        average: Callable[[Tensors], Tensors] = nn.DistributedGradReducer(parameters, mean=True, degree=self.size)
        return average

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of float64 numbers over the ranks, element by element."""
        return np.sum(self._everyones(values.astype(np.float64)), axis=0)  # type: ignore[no-any-return]

    def largest(self, value: float) -> float:
        return float(self._everyones(np.array([value])).max())

    def gather(self, value: Any) -> list[Any]:
        data = pickle.dumps(value)
        sizes = self._everyones(np.array([len(data)]))[:, 0]
        padded = np.zeros(-(-sizes.max() // WORD) * WORD, np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        rows = self._everyones(padded)
        return [pickle.loads(row[:size].tobytes()) for row, size in zip(rows, sizes)]

    def _everyones(self, values: NDArray[Any]) -> NDArray[Any]:
        """The numbers of all ranks, [rank, …]. They travel as the int32 that their bytes make."""
        if self.size == 1:
            return values[None]
        sent = Tensor(values.view(np.int32)[None], mindspore.int32)
        return ops.AllGather()(sent).asnumpy().view(values.dtype)  # type: ignore[no-any-return]
