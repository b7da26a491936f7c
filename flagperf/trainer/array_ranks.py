"""Ranks of a framework that sums arrays over them. All else that they tell each other is made of sums."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flagperf.trainer.ranks import Ranks

if TYPE_CHECKING:
    from typing_extensions import Self


class ArrayRanks(Ranks):
    """Ranks that say how they join, and how they sum."""

    def joined(self, backend: str, timeout: float) -> Self:
        """This rank when it has joined the others.

        Args:
            backend: of the collectives, by its name in the framework.
            timeout: seconds a collective may wait.
        """
        raise NotImplementedError

    def leave(self) -> None:
        """Leave the others, when all are here."""
        raise NotImplementedError

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of float64 numbers over the ranks, element by element."""
        raise NotImplementedError

    def everyones(self, values: NDArray[Any]) -> NDArray[Any]:
        """The numbers of all ranks, [rank, …]. Each has as many; those below 2^53 arrive as they are."""
        table = np.zeros((self.size, *values.shape))
        table[self.rank] = values
        return self.sum(table).astype(values.dtype)

    def of_first(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The arrays of rank 0, on every rank."""
        numbers = np.concatenate([np.ravel(array) for array in arrays]).astype(np.float64)
        numbers = self.sum(numbers if self.rank == 0 else np.zeros_like(numbers))
        parts = np.split(numbers, np.cumsum([array.size for array in arrays])[:-1])
        return [part.reshape(array.shape).astype(array.dtype) for part, array in zip(parts, arrays)]

    def largest(self, value: float) -> float:
        return float(self.everyones(np.array([value], np.float64)).max())

    def gather(self, value: Any) -> list[Any]:
        if self.size == 1:
            return [value]
        data = pickle.dumps(value)
        sizes = self.everyones(np.array([len(data)]))[:, 0]
        padded = np.zeros(sizes.max(), np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        rows = self.everyones(padded)
        return [pickle.loads(row[:size].tobytes()) for row, size in zip(rows, sizes)]
