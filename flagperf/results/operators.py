"""The OPERATOR events of a probe, and the shares of the peak that the operators reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flagperf.results.rank_log import RankLog

COMPUTE, MEMORY = "compute", "memory bandwidth"


@dataclass(frozen=True)
class MeasuredOperator:
    """An operator on the slowest device. Absent figures are None: the device lacks the operator."""

    name: str
    format: str  # of the numbers: fp32, fp16, bf16
    shapes: Sequence[Sequence[int]]
    first: float | None = None  # seconds of the first call, with all that is made once
    seconds: float | None = None  # of a call
    operations: int | None = None  # FLOP of a call
    bytes: int | None = None  # of inputs and results
    error: float | None = None  # against float64 on the CPU
    reason: str = ""  # why figures are missing

    @property
    def rate(self) -> float | None:
        """FLOP/s."""
        return None if self.seconds is None or self.operations is None else self.operations / self.seconds

    def share(self, peaks: Mapping[str, float], memory: float | None) -> tuple[float, str] | None:
        """The largest share of a peak, and the peak: what limits the operator at best. None without peaks.

        Args:
            peaks: number format → FLOP/s.
            memory: bytes/s; reads and writes both count.
        """
        if self.seconds is None or self.operations is None or self.bytes is None:
            return None
        shares = [
            *([(self.operations / self.seconds / peaks[self.format], COMPUTE)] if self.format in peaks else []),
            *([(self.bytes / self.seconds / memory, MEMORY)] if memory else []),
        ]
        return max(shares, default=None)


def operators_of(logs: Iterable[RankLog]) -> tuple[MeasuredOperator, ...]:
    """The operators of a probe, of its first rank."""
    events: Iterable[Any] = next((log.all("OPERATOR") for log in logs if log.rank == 0), ())
    names = [field.name for field in dataclasses.fields(MeasuredOperator)]
    return tuple(
        MeasuredOperator(**{name: event.value[name] for name in names if name in event.value}) for event in events
    )
