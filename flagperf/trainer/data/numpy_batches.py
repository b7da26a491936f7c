"""A rank's training batches, shuffled by NumPy's generator: for all frameworks but PyTorch."""

from __future__ import annotations

import numpy as np

from flagperf.trainer.data.batches import EndlessBatches


class TrainBatches(EndlessBatches):
    """This rank's batches without end."""

    def generator(self, seed: int) -> np.random.Generator:
        """NumPy's generator for a seed."""
        return np.random.default_rng(seed)

    def permutation(self, count: int, generator: np.random.Generator) -> list[int]:
        """The numbers below `count` in random order."""
        numbers: list[int] = generator.permutation(count).tolist()
        return numbers
