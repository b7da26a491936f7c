"""Synthetic training: each rank keeps a few real batches in device memory and trains on them again and again.

No data is read, augmented or copied during the training, so the figures show the device alone. The batches come from
the case's data set and loader, so their shapes and lengths are real.
"""

from __future__ import annotations

import math
from functools import cached_property

from flagperf.trainer.pytorch.batches import TrainBatches

# Batches that a rank holds. Several, since batches of detection, speech and text differ in size; no more, since 256
# images of 224 x 224 pixels take 0.15 GB. No cache of a device still holds the data of eight batches ago.
HELD = 8


class HeldBatches(TrainBatches):
    """The first batches of the data set, the same ones in every epoch: HELD on each rank.

    An epoch is as long as that of the data set, rounded up to whole turns of the held batches. A data set that is too
    small for one step of the job, as sample data may be, gives its batches to several ranks.
    """

    def _sizes(self, epoch: int) -> list[int]:
        return [len(batch) for batch in self._batches(epoch)]

    def _batches(self, epoch: int) -> list[list[int]]:  # noqa: ARG002
        return self._held

    @cached_property
    def _held(self) -> list[list[int]]:
        batches = super()._batches(epoch=1)
        if not batches and not hasattr(self.dataset, "batches"):
            batches = [[index % len(self.dataset) for index in range(self.batch_size)]]
        different = HELD * self.world.size
        turn = different * self.per_step // math.gcd(different, self.per_step)
        numbers = range(math.ceil(len(batches) / turn) * turn)
        return [batches[number % different % len(batches)] for number in numbers]
