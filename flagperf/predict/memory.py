"""The memory that a device needs for a traced step, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flagperf.contract.hardware import GIB
from flagperf.contract.trace import Trace

Verdict = Literal["fits", "tight", "does not fit"]
FURTHER = 16  # times the largest size, where nothing tells how far the limit is
CLOSE = 0.01  # share of a batch


@dataclass(frozen=True)
class Margin:
    """What a device needs beside the tensors of a step."""

    factor: float
    constant_gib: float
    source: str  # "the framework's file", "the product's file"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Margin:
        """That of the product, else that of the framework."""
        of_product = config["hardware"].get("memory_overhead")
        given = of_product or config["framework"].get("memory_overhead") or {"factor": 1.0, "constant_gib": 0.0}
        source = "the product's file" if of_product else "the framework's file"
        return cls(given["factor"], given["constant_gib"], source)

    def needed(self, tensors: float) -> float:
        """GiB of a device, for so many GiB of tensors."""
        return self.factor * tensors + self.constant_gib

    def tensors(self, memory: float) -> float:
        """GiB of tensors, for which a device with so many GiB has room."""
        return (memory - self.constant_gib) / self.factor


@dataclass(frozen=True)
class Fit:
    """The memory of a step on a product, in GiB."""

    tensors: float
    needed: float  # with the margin
    memory: float | None  # of the product; None: its file does not say

    @classmethod
    def of(cls, trace: Trace, config: Mapping[str, Any]) -> Fit:
        """That of a traced step on the product of its configuration."""
        tensors = trace.memory.total / GIB
        return cls(tensors, Margin.of(config).needed(tensors), config["hardware"].get("memory_gib"))

    @property
    def verdict(self) -> Verdict | None:
        """Whether the step fits: "tight" where only the margin is lacking. None: nobody knows the memory."""
        if self.memory is None:
            return None
        return "fits" if self.needed <= self.memory else "tight" if self.tensors <= self.memory else "does not fit"


def next_batch(needed: Mapping[int, float], memory: float) -> int:
    """The batch size up to which a step fits, on a line through two sizes: those around the limit, else the nearest.

    The memory of a step is a convex function of its batch: the largest of several straight lines, such as those of the
    optimizer and of the activations. So a result between two sizes fits, and one outside of them is an upper bound.

    Args:
        needed: GiB by batch size, of two sizes or more.
        memory: GiB of a device.
    """
    sizes = sorted(needed)
    at = min(max(1, sum(needed[size] <= memory for size in sizes)), len(sizes) - 1)
    low, high = sizes[at - 1], sizes[at]
    of_sample = (needed[high] - needed[low]) / (high - low)
    if of_sample <= 0:  # the peak does not depend on such small batches
        return FURTHER * high
    return max(0, low + int((memory - needed[low]) // of_sample))


def settled(needed: Mapping[int, float], memory: float, size: int) -> bool:
    """Whether a trace of this size would tell nothing new."""
    fitting = max((known for known, gib in needed.items() if gib <= memory), default=0)
    return size == 0 or size in needed or abs(size - fitting) <= CLOSE * fitting
