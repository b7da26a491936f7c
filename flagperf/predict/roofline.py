"""How long the operators of a step take at least: for each, the larger of computing and of moving bytes.

Two bounds. Eager: each operator reads its inputs from memory and writes its outputs there. Fused: of a chain of
element-wise operators only the first reads and the last writes, as a compiler does it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flagperf.contract.trace import OperatorCount
from flagperf.predict.speeds import Speeds

COMPUTE, MEMORY, LINKS = "compute", "memory bandwidth", "links"


@dataclass(frozen=True)
class ClassTime:
    """The operators of one class: the seconds of a step that they take at least, and what limits most of these."""

    operator_class: str
    seconds: float
    limited_by: str


def class_times(operators: Iterable[OperatorCount], speeds: Speeds, *, fused: bool) -> tuple[ClassTime, ...]:
    """The times of the classes of a step, the longest first. `speeds` has all that times need."""
    seconds: dict[str, dict[str, float]] = {}
    for operator in operators:
        limit, time = _bound(operator, speeds, fused)
        of_class = seconds.setdefault(operator.operator_class, {COMPUTE: 0.0, MEMORY: 0.0})
        of_class[limit] += time
    times = [
        ClassTime(name, sum(limits.values()), max(limits, key=limits.__getitem__)) for name, limits in seconds.items()
    ]
    return tuple(sorted((time for time in times if time.seconds > 0), key=lambda time: -time.seconds))


def _bound(operator: OperatorCount, speeds: Speeds, fused: bool) -> tuple[str, float]:
    """What limits an operator, and its seconds in a step."""
    peak = speeds.peak(operator.dtype)
    assert peak is not None, "the product has a peak"
    assert speeds.memory is not None, "the product has a memory bandwidth"
    computing = operator.operations / peak
    moving = (operator.chain if fused else operator.read + operator.written) / speeds.memory
    return (COMPUTE, computing) if computing > moving else (MEMORY, moving)
