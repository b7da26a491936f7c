"""A rank's training batches, in an order that NumPy's generator draws: on each framework but PyTorch."""

from __future__ import annotations

import numpy as np

from flagperf.trainer.data.batches import EndlessBatches


class TrainBatches(EndlessBatches):
    """This rank's batches without end."""

    def generator(self, seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    def permutation(self, count: int, generator: np.random.Generator) -> list[int]:
        numbers: list[int] = generator.permutation(count).tolist()
        return numbers
