"""A round beside what its product allows, from counts that a person can divide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flagperf.contract.records import Achievable, ClassShare, ProbedDevice
from flagperf.contract.trace import Collective, MemoryPeak, OperatorCount, Trace, TracedCase
from flagperf.results.achievable import achievable

# 1 TFLOP of matrix products, and 100 GB of element-wise traffic, of which 60 GB stay when operators are fused.
CASE = TracedCase("x", "full", "fp32", 32, 1, None, "ddp", {}, None, None, "shapes", {}, "")
TRACE = Trace(
    CASE,
    32,
    MemoryPeak(0, 0, 0, 0, 0, 0, "", "forward"),
    operators=(
        OperatorCount("aten.mm", "matmul", "float32", "forward", 10, 1e12, 10**9, 0, 10**9),
        OperatorCount("aten.relu", "elementwise", "float32", "forward", 10, 0, 50 * 10**9, 50 * 10**9, 60 * 10**9),
    ),
    collectives=(Collective("all_reduce", "dp_replicate", 2, "float32", "backward", 1, 40 * 10**9),),
)
CONFIG: dict[str, Any] = {
    "hardware": {
        "name": "X1",
        "peak_flops": {"fp32": 1e12},
        "memory_bandwidth": 100e9,
        "links": {"node": {"bandwidth": 20e9}},
    },
    "precision": "fp32",
    "compile": False,
    "nnodes": 1,
    "nproc": 2,
    "parallel": {"mesh": {"dp_replicate": -1, "dp_shard": 1, "tp": 1}},
}
VALUES = {"num_trained_units": 640, "global_steps": 10, "p_train": 16.0}  # 64 a step, which takes 4 seconds
HALVES = (ClassShare("matmul", 0.5, "compute"), ClassShare("elementwise", 0.5, "memory bandwidth"))
COUNTS = {"operations": 1e12, "moved": 101e9}
NO_PEAKS = {**CONFIG, "hardware": {"name": "cpu", "peak_flops": {}, "memory_bandwidth": None}}
PROBE = tuple(
    ProbedDevice(rank, "a", "CPU", {"fp32": 2e12, "memory": 100e9, "all_reduce_node": 16e9}) for rank in (0, 1)
)


@pytest.mark.parametrize(
    ("trace", "config", "probe", "expected"),
    [
        pytest.param(
            TRACE,
            CONFIG,
            (),
            # 1 s + 1 s of computation, in which the all-reduce of 2 s goes on; fused 1.6 s, so 2 s of all-reduce
            Achievable(32.0, 0.5, 32.0, 2.0, HALVES, "the data sheet of X1", **COUNTS),
            id="data sheet",
        ),
        pytest.param(
            TRACE,
            {**CONFIG, "compile": True},
            (),
            Achievable(
                32.0,
                0.5,
                32.0,
                2.0,
                (
                    HALVES[0],
                    ClassShare("elementwise", 0.3, "memory bandwidth"),
                    ClassShare("communication", 0.2, "links"),
                ),
                "the data sheet of X1",
                **COUNTS,
            ),
            id="compiled: what is fused, and communication that it does not cover",
        ),
        pytest.param(
            TRACE,
            NO_PEAKS,
            (),
            Achievable(
                source="the data sheet of cpu",
                missing=("peak_flops", "memory_bandwidth", "links.node.bandwidth"),
                **COUNTS,
            ),
            id="no figures",
        ),
        pytest.param(
            TRACE,
            NO_PEAKS,
            PROBE,
            Achievable(
                64 / 2.5,
                0.625,
                None,
                2.5,
                (
                    ClassShare("elementwise", 0.4, "memory bandwidth"),
                    ClassShare("communication", 0.4, "links"),
                    ClassShare("matmul", 0.2, "compute"),
                ),
                "the probe of this job",
                **COUNTS,
            ),
            id="probe",
        ),
        pytest.param(
            None, NO_PEAKS, (), Achievable(missing=("peak_flops", "memory_bandwidth", "a traced step")), id="no trace"
        ),
    ],
)
def test_achievable(
    trace: Trace | None, config: dict[str, Any], probe: tuple[ProbedDevice, ...], expected: Achievable
) -> None:
    found = achievable(trace, config, VALUES, probe)
    assert found is not None
    assert [(one.operator_class, one.limited_by, pytest.approx(one.share)) for one in found.classes] == [
        (one.operator_class, one.limited_by, one.share) for one in expected.classes
    ]
    assert replace(found, classes=()) == replace(expected, classes=())


def test_no_figures_no_line() -> None:
    assert achievable(TRACE, CONFIG, {}) is None
