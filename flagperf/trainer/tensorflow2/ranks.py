"""How the ranks of TensorFlow join and sum."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from flagperf.trainer.array_ranks import ArrayRanks

GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)  # the peer of a collective ended


@dataclass(frozen=True)
class World(ArrayRanks):
    """Ranks that talk through the collectives of a strategy of tf.distribute, one replica a rank.

    Variables are made outside of the strategy: each rank has its own, equal by seed and by what `all_reduce` gives all.
    So the optimizers of Keras take the averaged gradients as they are, and clip and check those, not a rank's own.
    """

    strategy: Any = None  # a tf.distribute.Strategy, once they are joined

    def joined(self, backend: str, timeout: float) -> World:
        """Join by TF_CONFIG as conf/framework/tensorflow2.yaml gives it to each rank."""
        kinds = tf.distribute.experimental.CommunicationImplementation
        kind = kinds.NCCL if backend == "nccl" else kinds.RING
        options = tf.distribute.experimental.CommunicationOptions(implementation=kind, timeout_seconds=timeout)
        return replace(self, strategy=tf.distribute.MultiWorkerMirroredStrategy(communication_options=options))

    def leave(self) -> None:
        """Wait until all ranks are here. One that knows it ends, which may break the wait of another: all were here."""
        with contextlib.suppress(*GONE):
            self.wait()

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.size == 1 else np.asarray(_sum(self.strategy, tf.constant(values)))


@tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
def _sum(strategy: tf.distribute.Strategy, values: tf.Tensor) -> tf.Tensor:
    return strategy.run(_summed, args=(values,))


def _summed(values: tf.Tensor) -> tf.Tensor:
    here = tf.identity(values)  # on this rank's device: an argument lies nowhere yet
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)
