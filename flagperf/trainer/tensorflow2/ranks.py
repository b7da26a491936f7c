"""How the ranks of TensorFlow join and sum."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from typing_extensions import override

from flagperf.trainer.array_ranks import ArrayRanks

GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)  # the peer of a collective ended


@dataclass(frozen=True)
class World(ArrayRanks):
    """Ranks that talk through the collectives of a strategy of tf.distribute, one replica a rank.

    Each rank makes its variables outside of the strategy. They are equal by the seed and by `all_reduce`. So Keras's
    optimizers clip and check the averaged gradients, not those of a rank.
    """

    strategy: Any = None  # a tf.distribute.Strategy, after the ranks joined

    def join(self, backend: str, timeout: float) -> World:
        """Join by TF_CONFIG as conf/framework/tensorflow2.yaml gives it to each rank."""
        kinds = tf.distribute.experimental.CommunicationImplementation
        kind = kinds.NCCL if backend == "nccl" else kinds.RING
        options = tf.distribute.experimental.CommunicationOptions(implementation=kind, timeout_seconds=timeout)
        return replace(self, strategy=tf.distribute.MultiWorkerMirroredStrategy(communication_options=options))

    def leave(self) -> None:
        """Wait for all ranks. The first rank that leaves may break the wait of another, which then leaves, too."""
        with contextlib.suppress(*GONE):
            self.wait()

    @override
    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.size == 1 else np.asarray(_sum(self.strategy, tf.constant(values)))


@tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
def _sum(strategy: tf.distribute.Strategy, values: tf.Tensor) -> tf.Tensor:
    return strategy.run(_summed, args=(values,))


def _summed(values: tf.Tensor) -> tf.Tensor:
    here = tf.identity(values)  # on this rank's device: an argument has no device yet
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)
