"""Ranks of a framework that sums arrays over them. Sums carry all other messages between them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from flagperf.trainer.ranks import Ranks

if TYPE_CHECKING:
    from typing_extensions import Self


class ArrayRanks(Ranks):
    """Ranks of a framework, which implements how they join, leave and sum."""

    def join(self, backend: str, timeout: float) -> Self:
        """Join the other ranks. Returns this rank, joined.

        Args:
            backend: the framework's name of the collectives' backend.
            timeout: seconds a collective may wait.
        """
        raise NotImplementedError

    def leave(self) -> None:
        """Wait for all ranks, and leave them."""
        raise NotImplementedError

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of float64 numbers over the ranks, element by element."""
        raise NotImplementedError

    def all_gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """The numbers of all ranks, [rank, …]. All shapes are equal; whole numbers below 2^53 arrive exactly."""
        table = np.zeros((self.size, *values.shape))
        table[self.rank] = values
        return self.sum(table).astype(values.dtype)

    def broadcast(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The arrays of rank 0, on every rank."""
        numbers = np.concatenate([np.ravel(array) for array in arrays]).astype(np.float64)
        numbers = self.sum(numbers if self.rank == 0 else np.zeros_like(numbers))
        parts = np.split(numbers, np.cumsum([array.size for array in arrays])[:-1])
        return [part.reshape(array.shape).astype(array.dtype) for part, array in zip(parts, arrays)]

    @override
    def largest(self, value: float) -> float:
        return float(self.all_gather(np.array([value], np.float64)).max())

    @override
    def gather(self, value: Any) -> list[Any]:
        if self.size == 1:
            return [value]
        data = pickle.dumps(value)
        sizes = self.all_gather(np.array([len(data)]))[:, 0]
        padded = np.zeros(sizes.max(), np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        rows = self.all_gather(padded)
        return [pickle.loads(row[:size].tobytes()) for row, size in zip(rows, sizes)]
