"""The memory that a device needs, and the largest batch that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contract.test_trace import CASE, TRACE

from flagperf.contract.hardware import GIB
from flagperf.contract.trace import MemoryPeak, Trace
from flagperf.predict.memory import Fit, largest_batch

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
def test_fit(gib, memory, verdict):
    fit = Fit.of(traced(1, gib), {**CONFIG, "hardware": {"memory_gib": memory}})
    assert (fit, fit.verdict) == (Fit(gib, pytest.approx(1.2 * gib + 2), memory), verdict)


def test_largest_batch_is_on_the_line_through_two_traces():
    assert largest_batch(traced(4, 12), traced(2, 8), CONFIG) == 13  # (40 - 2) / 1.2 = 31.7 = 4 + 2 x 13.8
