"""The memory that a device needs for a traced step, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flagperf.contract.hardware import GIB
from flagperf.contract.trace import Trace

Verdict = Literal["fits", "tight", "does not fit"]


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
        memory = config["hardware"].get("memory_gib") if config["vendor"]["device"] != "cpu" else None
        return cls(tensors, Margin.of(config).needed(tensors), memory)

    @property
    def verdict(self) -> Verdict | None:
        """Whether the step fits: "tight" where only the margin is lacking. None: nobody knows the memory."""
        if self.memory is None:
            return None
        return "fits" if self.needed <= self.memory else "tight" if self.tensors <= self.memory else "does not fit"


def largest_batch(first: Trace, second: Trace, config: Mapping[str, Any]) -> int | None:
    """The largest batch of a device that fits, on the line through traces of two batch sizes.

    Returns:
        0 where no sample fits; None where nobody knows the memory of the product.
    """
    memory = Fit.of(first, config).memory
    if memory is None:
        return None
    (small, low), (large, high) = sorted((trace.case.batch_size, trace.memory.total / GIB) for trace in (first, second))
    of_sample = (high - low) / (large - small)
    room = Margin.of(config).tensors(memory) - low
    return max(0, small + int(room // of_sample)) if of_sample > 0 else None
