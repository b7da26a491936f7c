"""The memory that a device needs, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from contract.test_trace import CASE, TRACE

from flagperf.contract.hardware import GIB
from flagperf.contract.trace import MemoryPeak, Trace
from flagperf.predict.memory import Fit, next_batch, settled

CONFIG = {
    "hardware": {"memory_gib": 40},
    "framework": {"memory_overhead": {"factor": 1.2, "constant_gib": 2.0}},
    "vendor": {"device": "cuda"},
}


def traced(batch_size: int, gib: float) -> Trace:
    memory = MemoryPeak(0, 0, 0, int(gib * GIB), 0, 0, module="", phase="forward")
    return replace(TRACE, case=replace(CASE, batch_size=batch_size), memory=memory)


@pytest.mark.parametrize(
    ("gib", "memory", "verdict"),
    [
        pytest.param(10, 40, "fits", id="with the margin"),
        pytest.param(35, 40, "tight", id="without the margin"),
        pytest.param(45, 40, "does not fit", id="not at all"),
        pytest.param(45, None, None, id="the product states no memory"),
    ],
)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_fit(gib, memory, verdict, device):
    """The memory of a product counts, whatever its device is called: a product of one's own may be a CPU to torch."""
    fit = Fit.of(traced(1, gib), {**CONFIG, "hardware": {"memory_gib": memory}, "vendor": {"device": device}})
    assert (fit, fit.verdict) == (Fit(gib, pytest.approx(1.2 * gib + 2), memory), verdict)


def straight(size: int) -> float:
    return 10 + 0.125 * size


def bent(size: int) -> float:
    return max(10 + size / 1024, 0.125 * size)


@pytest.mark.parametrize(
    ("needed", "first", "memory", "traced", "largest"),
    [
        pytest.param(straight, (2, 4), 35.0, [200], 200, id="a line"),
        pytest.param(straight, (8, 16), 10.7, [5], 5, id="a smaller size"),
        pytest.param(straight, (8, 16), 9.0, [], 0, id="no size"),
        pytest.param(bent, (16, 32), 40.0, [30720, 272, 320], 320, id="two sizes before the bend"),
        pytest.param(bent, (64, 1280), 40.0, [306, 320], 320, id="a size before the bend, another after it"),
    ],
)
def test_largest_batch(
    needed: Callable[[int], float], first: tuple[int, int], memory: float, traced: list[int], largest: int
) -> None:
    known = {size: needed(size) for size in first}
    while not settled(known, memory, size := next_batch(known, memory)):
        known[size] = needed(size)
    assert ([*known][2:], size) == (traced, largest)
