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
from typing_extensions import override

from flagperf.trainer.array_ranks import ArrayRanks

if TYPE_CHECKING:
    from typing_extensions import Self

TIMEOUTS = ("MS_CPU_COMM_OP_TIMEOUT", "HCCL_EXEC_TIMEOUT")  # seconds that a collective waits: MCCL (else 30), HCCL
Tensors = Tuple[Tensor, ...]
WORD = 4  # bytes of an int32


class World(ArrayRanks):
    """Ranks that talk through MindSpore's collectives: HCCL on Ascend, MCCL on a CPU."""

    def join(self, backend: str, timeout: float) -> Self:
        """Join the other ranks in a store that rank 0 serves, at MASTER_ADDR and MASTER_PORT.

        MindSpore's other way needs a further process, a scheduler. `mint.distributed.init_process_group` works this way
        for HCCL alone, by the function that is called here. All ranks must join within the timeout.
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
        """Wait for all ranks. The first rank that leaves may break the wait of another, which then leaves, too.

        Until then rank 0 serves the store of the others.
        """
        with contextlib.suppress(RuntimeError):
            self.wait()

    def averaging(self, parameters: Sequence[Parameter]) -> Callable[[Tensors], Tensors]:
        """A function that averages the gradients of parameters over the ranks."""
        if self.size == 1:
            return lambda gradients: gradients
        average: Callable[[Tensors], Tensors] = nn.DistributedGradReducer(parameters, mean=True, degree=self.size)
        return average

    @override
    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.sum(self.all_gather(values), axis=0)  # type: ignore[no-any-return]

    def all_gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """Gather the bytes of the numbers as int32, which every backend can gather."""
        if self.size == 1:
            return values[None]
        flat = np.ravel(values)
        padded = np.zeros(-(-flat.nbytes // WORD) * WORD, np.uint8)
        padded[: flat.nbytes] = flat.view(np.uint8)
        rows = ops.AllGather()(Tensor(padded.view(np.int32)[None], mindspore.int32)).asnumpy().view(np.uint8)
        numbers: NDArray[Any] = rows[:, : flat.nbytes].copy().view(values.dtype)
        return numbers.reshape(self.size, *values.shape)
