"""Top-1 and top-5 accuracy from counts, for the frameworks beside PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from typing_extensions import override

from flagperf.trainer.loop.task import Task


class CountedAccuracy(Task):
    """A task whose `count` gives images, and those whose class has the best score, or one of the best five."""

    metrics = ("acc1", "acc5")
    counts = 3

    @override
    def samples(self, batch: Sequence[Any]) -> int:
        return int(batch[1].shape[0])

    @override
    def measure(self, counted: NDArray[Any]) -> dict[str, float]:
        """Top-1 (`acc1`) and top-5 (`acc5`) accuracy in percent."""
        images, first, five = counted.tolist()
        return {"acc1": round(100 * first / images, 4), "acc5": round(100 * five / images, 4)}
