"""Scales beside each other: what fits, what is fastest, and how efficient it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flagperf.contract.mesh import Mesh
from flagperf.contract.pipeline import bubble
from flagperf.contract.trace import Collective, MemoryPeak, OperatorCount, PipelineRank, Trace, TracedCase
from flagperf.predict.scaling import candidates, scale_of
from flagperf.predict.times import figures_of, step_times
from flagperf.report.prediction import conclusions, prediction_page, scale_rows, time_lines

CASE = TracedCase("x", "full", "amp_bf16", 1, 1, None, "sharded", {}, None, None, "shapes", {}, "")
TRACE = Trace(  # 1 s of matrix products, and the parameters of 10 GB gathered once
    CASE,
    1,
    MemoryPeak(0, 0, 0, 0, 0, 0, "", "forward"),
    (OperatorCount("aten.mm", "matmul", "bfloat16", "forward", 1, 1e12, 10**9, 0, 10**9),),
    (Collective("all_gather", "dp_shard", 8, "bfloat16", "forward", 1, 10 * 10**9),),
)
HARDWARE = {
    "name": "X1",
    "peak_flops": {"bf16": 1e12},
    "memory_bandwidth": 100e9,
    "links": {"node": {"bandwidth": 100e9}, "network": {"bandwidth": 1e9}},
}


def config(nnodes: int) -> dict[str, Any]:
    return {
        "hardware": HARDWARE,
        "precision": "amp_bf16",
        "nnodes": nnodes,
        "nproc": 8,
        "parallel": {"mesh": {"dp_replicate": 1, "dp_shard": -1, "tp": 1}},
    }


def test_scales() -> None:
    """Beside 1 s of computation the eight adapters of a node carry 5 GB in 0.625 s; of 64 nodes, 9.8 GB in 1.23 s."""
    scales = []
    for nnodes, memory in ((1, 90.0), (2, 60.0), (64, 20.0)):
        collective = replace(TRACE.collectives[0], group=8 * nnodes)
        trace = replace(TRACE, collectives=(collective,))
        scales.append(scale_of(trace, config(nnodes), figures_of(config(nnodes)), memory, limit=80.0))
    shown = (
        "scale",
        "mesh",
        "fits",
        "step at least [ms]",
        "samples/s at most, fused",
        "no overlap",
        "MFU",
        "efficiency",
    )
    assert [[row[name] for name in shown] for row in scale_rows(scales)] == [
        ["1x8", "dp_shard=8", "no", "1,000", "8", "7.356", "100 %", "100 %"],
        ["2x8", "dp_shard=16", "yes", "1,000", "16", "9.846", "100 %", "100 %"],
        ["64x8", "dp_shard=512", "yes", "1,230", "416.1", "229.5", "81.3 %", "81.3 %"],
    ]
    assert list(conclusions(scales)) == [
        "The fewest devices that fit: 16 (2x8, dp_replicate=1, dp_shard=16, tp=1).",
        "The fastest predicted mesh of 16 devices: dp_replicate=1, dp_shard=16, tp=1, at most 16 samples/s.",
        "The fastest predicted mesh of 512 devices: dp_replicate=1, dp_shard=512, tp=1, at most 416.1 samples/s.",
    ]


def test_the_page_has_all_scales() -> None:
    scales = [scale_of(TRACE, config(nnodes), figures_of(config(nnodes)), 20.0) for nnodes in (1, 2)]
    page = prediction_page("x on X1", scales)
    words = ("x on X1, predicted", "dp_shard=16", "all_gather", '"title":"Predicted throughput"', "efficiency")
    assert [word for word in words if word not in page] == []


def test_sentences() -> None:
    known = config(64)
    unknown = {**known, "hardware": {**HARDWARE, "memory_bandwidth": None}}
    trace = replace(TRACE, collectives=(replace(TRACE.collectives[0], group=512),))
    rates = "at most 416.1 samples/s, a step takes at least 1,230 ms; without overlap of communication at most 229.5"
    assert list(time_lines(scale_of(trace, known, figures_of(known), 20.0))) == [
        f"eager: {rates} samples/s; MFU at most 81.3 %",
        f"fused: {rates} samples/s; MFU at most 81.3 %",
        "The figures of the product are from the data sheet of X1. MFU counts the operations of the traced step.",
    ]
    assert list(time_lines(scale_of(trace, unknown, figures_of(unknown), 20.0))) == [
        "No times: memory_bandwidth missing in the data sheet of X1."
    ]


@pytest.mark.parametrize(
    ("nnodes", "pps", "meshes"),
    [
        pytest.param(1, (1,), [Mesh(1, 8, 1), Mesh(1, 4, 2)], id="a node"),
        pytest.param(4, (1,), [Mesh(1, 32, 1), Mesh(4, 8, 1), Mesh(1, 16, 2), Mesh(4, 4, 2)], id="four nodes"),
        pytest.param(2, (2,), [Mesh(1, 8, 1, pp=2), Mesh(1, 4, 2, pp=2)], id="a stage on each node"),
        pytest.param(3, (2,), [Mesh(1, 12, 1, pp=2), Mesh(1, 6, 2, pp=2)], id="stages of a node and a half"),
        pytest.param(1, (8, 16), [Mesh(1, 1, 1, pp=8)], id="no more stages than devices"),
    ],
)
def test_candidates(nnodes: int, pps: tuple[int, ...], meshes: list[Mesh]) -> None:
    assert list(candidates(nnodes, 8, tps=(1, 2), pps=pps)) == meshes


@pytest.mark.parametrize(
    ("last", "least"),
    [
        pytest.param(1.0, 1 / (1 - bubble(4, 2, 8)), id="equal ranks"),
        pytest.param(2.0, 2 + 3 / 16, id="the last rank computes most"),
        pytest.param(0.5, 1.0, id="the first rank computes most"),
    ],
)
def test_pipeline(last: float, least: float) -> None:
    """Three ranks compute for 1 s, the last of four for another time, in two stages and eight micro batches."""
    ranks = [
        PipelineRank(
            position, alike, 16, TRACE.memory, (replace(TRACE.operators[0], operations=seconds * 1e12, calls=16),), ()
        )
        for position, alike, seconds in ((0, 1, 1.0), (1, 2, 1.0), (3, 1, last))
    ]
    most = max(ranks, key=lambda rank: rank.operators[0].operations)
    trace = Trace(CASE, 1, TRACE.memory, most.operators, pipeline=tuple(ranks))
    times = step_times(trace, Mesh(pp=4), figures_of(config(1)))
    assert (times.at_least(fused=True, overlap=True), trace.operations) == pytest.approx((least, (3 + last) / 4 * 1e12))
    named = {time.operator_class: time.seconds for time in times.classes(fused=True)}
    waits = {"pipeline bubble": pytest.approx(least - max(1.0, last))} if least > max(1.0, last) else {}
    assert named == {"matmul": pytest.approx(max(1.0, last)), **waits}
