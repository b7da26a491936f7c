"""How the ranks of MindSpore join, gather and sum."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Tuple

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.communication.management import _init_with_store
from mindspore.mint.distributed import TCPStore
from numpy.typing import NDArray

from flagperf.trainer.array_ranks import ArrayRanks

if TYPE_CHECKING:
    from typing_extensions import Self

TIMEOUTS = ("MS_CPU_COMM_OP_TIMEOUT", "HCCL_EXEC_TIMEOUT")  # seconds that a collective waits: MCCL (else 30), HCCL
Tensors = Tuple[Tensor, ...]
WORD = 4  # bytes of an int32


class World(ArrayRanks):
    """Ranks that talk through MindSpore's collectives: HCCL on Ascend, MCCL on a CPU."""

    def joined(self, backend: str, timeout: float) -> Self:
        """Join the other ranks in a store that rank 0 serves, at MASTER_ADDR and MASTER_PORT.

        MindSpore's other way wants one more process, a scheduler. `mint.distributed.init_process_group` has this one
        for HCCL alone, by the function that is called here. All ranks must have come within the timeout.
        """
        if self.size > 1:
            address = socket.gethostbyname(os.environ["MASTER_ADDR"])
            patience = timedelta(seconds=timeout)
            for name in TIMEOUTS:
                os.environ.setdefault(name, str(int(timeout)))
            store = TCPStore(address, int(os.environ["MASTER_PORT"]), self.size, self.rank == 0, patience)
            _init_with_store(backend, patience, self.size, self.rank, store)
        return self

    def leave(self) -> None:
        """Wait until all ranks are here. One that knows it ends, which may break the wait of another: all were here.

        Rank 0 serves the store of the others until then.
        """
        with contextlib.suppress(RuntimeError):
            self.wait()

    def averaging(self, parameters: Sequence[Parameter]) -> Callable[[Tensors], Tensors]:
        """What makes the gradients of parameters their means over the ranks."""
        if self.size == 1:
            return lambda gradients: gradients
        average: Callable[[Tensors], Tensors] = nn.DistributedGradReducer(parameters, mean=True, degree=self.size)
        return average

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.sum(self.everyones(values), axis=0)  # type: ignore[no-any-return]

    def everyones(self, values: NDArray[Any]) -> NDArray[Any]:
        """The numbers travel as the int32 that their bytes make, which each backend gathers."""
        if self.size == 1:
            return values[None]
        flat = np.ravel(values)
        padded = np.zeros(-(-flat.nbytes // WORD) * WORD, np.uint8)
        padded[: flat.nbytes] = flat.view(np.uint8)
        rows = ops.AllGather()(Tensor(padded.view(np.int32)[None], mindspore.int32)).asnumpy().view(np.uint8)
        everyones: NDArray[Any] = rows[:, : flat.nbytes].copy().view(values.dtype)
        return everyones.reshape(self.size, *values.shape)
