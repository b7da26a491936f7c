"""Traffic where a chain of neighbouring element-wise operators is one kernel.

An operator joins the chain before it where it takes an output of that chain. A chain reads what it did not make, and
writes what lives after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from flagperf.trainer.pytorch.trace.counts import Row
from flagperf.trainer.pytorch.trace.memory import Held, Memory


class Chains:
    """The chain that is open now."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._made: dict[int, tuple[Held, int, Row]] = {}  # by the storage's identity: storage, bytes, who wrote it
        self._read: set[int] = set()

    def add(self, row: Row, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """An element-wise operator."""
        held = [(self._memory.held(tensor), tensor) for tensor in inputs]
        if not any(id(storage) in self._made for storage, _ in held):
            self.end()
        for storage, tensor in held:
            if id(storage) not in self._made and id(storage) not in self._read:
                row.chain += size(tensor)
                self._read.add(id(storage))
        for tensor in outputs:
            storage = self._memory.held(tensor)
            self._made[id(storage)] = storage, size(tensor), row

    def end(self) -> None:
        """Another operator follows: what the chain made and still lives is written."""
        for held, written, row in self._made.values():
            if held.alive:
                row.chain += written
        self._made, self._read = {}, set()


def size(tensor: Tensor) -> int:
    """Bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()
