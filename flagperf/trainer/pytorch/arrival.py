"""When this rank has computed its gradients and waits for those of the other ranks, in data parallelism.

DistributedDataParallel waits at the end of the backward pass, in a callback of autograd's engine. Callbacks run in the
order in which they were queued, after all gradients are computed. So a callback that was queued when the backward pass
began runs right before that wait. The ranks also meet before a forward pass, if the network has buffers.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Variable
from torch.nn.parallel import DistributedDataParallel

from flagperf.trainer.loop.clock import COMPUTE, WAIT, Clock


class Arrival:
    """Ends a lap of the clock before and after the wait for the other ranks.

    Attributes:
        waiting: whether this rank waits now.
    """

    def __init__(self, clock: Clock) -> None:
        self.waiting = False
        self._lap = clock.lap
        self._queue = Variable._execution_engine.queue_callback

    def watch_buffers(self, network: DistributedDataParallel) -> None:
        """Note the wait at the begin of each forward pass, where ranks get the buffers of rank 0, as of batch norm."""
        send: Any = network._sync_buffers

        def timed() -> None:
            self._arrived()
            send()
            self.passed()

        network._sync_buffers = timed  # type: ignore[method-assign]

    def expect(self, loss: Tensor) -> None:
        """Note the wait of this loss's backward pass."""
        loss.register_hook(self._began)  # type: ignore[no-untyped-call]

    def passed(self) -> None:
        """The backward pass has ended."""
        self._lap(WAIT)
        self.waiting = False

    def _began(self, _: Tensor) -> None:
        self._queue(self._arrived)

    def _arrived(self) -> None:
        self.waiting = True
        self._lap(COMPUTE)
