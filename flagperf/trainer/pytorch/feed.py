"""The feed: a rank's training batches on its device, one after the other without end, counted."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import cycle
from typing import Any

from flagperf.trainer.pytorch.loading import on_device
from flagperf.trainer.pytorch.parts import Parts


class Feed:
    """Training batches from the place on at which the sampler starts. Synthetic ones are loaded here, others later.

    Attributes:
        samples, units: of the batches taken so far; 0 where another rank that trains on the same data counts them.
        batches: the generator to take them from; close it at the end.
    """

    def __init__(self, parts: Parts) -> None:
        self.samples = self.units = 0
        self._counts = parts.strategy.mesh.counts_data(parts.world.rank)
        task, to_device = parts.task, parts.to_device

        def move(batch: Any) -> tuple[int, int, Any]:
            return task.samples(batch), task.units(batch), to_device(batch)

        moved: Iterable[tuple[int, int, Any]] = on_device(parts.datasets.train_loader, move, parts.device)
        self.batches: Generator[Any] = self._counted(cycle(list(moved)) if parts.settings.synthetic else moved)

    def _counted(self, moved: Iterable[tuple[int, int, Any]]) -> Generator[Any]:
        for samples, units, batch in moved:
            if self._counts:
                self.samples += samples
                self.units += units
            yield batch
