"""How the ranks of TensorFlow join, and tell each other sums, numbers and values."""

from __future__ import annotations

import contextlib
import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from flagperf.trainer.ranks import Ranks

GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)  # the peer of a collective ended


@dataclass(frozen=True)
class World(Ranks):
    """Ranks that talk through the collectives of a strategy of tf.distribute, one replica a rank.

    Variables are made outside of the strategy: each rank has its own, equal by seed and by what `all_reduce` gives all.
    So the optimizers of Keras take the averaged gradients as they are, and clip and check those, not a rank's own.
    """

    strategy: Any = None  # a tf.distribute.Strategy, once they are connected

    def connected(self, backend: str, timeout: float) -> World:
        """This rank when it has joined the others, by TF_CONFIG as conf/framework/tensorflow2.yaml gives it to each.

        Args:
            timeout: seconds a collective may wait.
        """
        kinds = tf.distribute.experimental.CommunicationImplementation
        kind = kinds.NCCL if backend == "nccl" else kinds.RING
        options = tf.distribute.experimental.CommunicationOptions(implementation=kind, timeout_seconds=timeout)
        return replace(self, strategy=tf.distribute.MultiWorkerMirroredStrategy(communication_options=options))

    def leave(self) -> None:
        """Wait until all ranks are here. One that knows it ends, which may break the wait of another: all were here."""
        with contextlib.suppress(*GONE):
            self.wait()

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of float64 numbers over the ranks, element by element."""
        if self.size == 1:
            return values
        return np.asarray(_sum(self.strategy, tf.constant(values)))

    def of_first(self, values: NDArray[Any]) -> NDArray[Any]:
        """The float64 numbers of rank 0, on every rank."""
        return self.sum(values if self.rank == 0 else np.zeros_like(values))

    def largest(self, value: float) -> float:
        return float(self.sum(self._at_own_place(value)).max())

    def gather(self, value: Any) -> list[Any]:
        data = pickle.dumps(value)
        sizes = self.sum(self._at_own_place(len(data))).astype(int)
        table = np.zeros((self.size, sizes.max()))
        table[self.rank, : len(data)] = np.frombuffer(data, np.uint8)
        rows = self.sum(table)
        return [pickle.loads(row[:size].astype(np.uint8).tobytes()) for row, size in zip(rows, sizes)]

    def _at_own_place(self, value: float) -> NDArray[Any]:
        """A number for each rank, 0 but for this one: their sum has all."""
        values = np.zeros(self.size)
        values[self.rank] = value
        return values


@tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
def _sum(strategy: tf.distribute.Strategy, values: tf.Tensor) -> tf.Tensor:
    return strategy.run(_summed, args=(values,))


def _summed(values: tf.Tensor) -> tf.Tensor:
    here = tf.identity(values)  # on this rank's device: an argument lies nowhere yet
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)
