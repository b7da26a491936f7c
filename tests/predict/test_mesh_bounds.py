"""What traced meshes tell about the throughput and the memory of others."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from predict.test_scaling import TRACE, config

from flagperf.contract.hardware import GIB
from flagperf.contract.mesh import Mesh
from flagperf.contract.trace import MemoryPeak, PipelineRank
from flagperf.predict.mesh_bounds import TracedMesh, rate_at_most, tensors_at_least

ALL = Mesh(1, 16)
PEAK = MemoryPeak(2 * GIB, 10 * GIB, 4 * GIB, 20 * GIB, 3 * GIB, GIB, "", "backward")
RANKS = [PipelineRank(number, 1, 4, PEAK, TRACE.operators, ()) for number in range(2)]
STEP = replace(TRACE.operators[0], phase="optimizer")


def traced(mesh: Mesh, seconds: float = 1.0) -> TracedMesh:
    """A job of a sample for each data rank, whose ranks compute for so many seconds before the optimizer."""
    operators = (replace(TRACE.operators[0], operations=seconds * 1e12), STEP)
    pipeline = tuple(replace(rank, operators=operators) for rank in RANKS) if mesh.pp > 1 else ()
    trace = replace(TRACE, memory=PEAK, operators=operators, collectives=(), pipeline=pipeline)
    product = {"framework": {}, "vendor": {"device": "cuda"}, "parallel": {"mesh": vars(mesh)}}
    return TracedMesh.of(trace, {**config(nnodes=2), **product})


@pytest.mark.parametrize(
    ("mesh", "bubble", "known", "rate"),
    [
        pytest.param(ALL, 0.0, [], math.inf, id="nothing is known"),
        pytest.param(ALL, 0.0, [traced(Mesh(1, 8, tp=2))], math.inf, id="less tp sends less"),
        pytest.param(Mesh(1, 8, tp=2), 0.0, [traced(ALL), traced(Mesh(2, 4, tp=2), 2.0)], 4.0, id="the slowest"),
        pytest.param(Mesh(1, 8, pp=2), 0.2, [traced(ALL)], pytest.approx(12.8), id="a bubble"),
        pytest.param(Mesh(1, 4, pp=4), 0.0, [traced(Mesh(1, 8, pp=2))], 8.0, id="of a pipeline"),
    ],
)
def test_rate(mesh: Mesh, bubble: float, known: list[TracedMesh], rate: float) -> None:
    assert rate_at_most(mesh, bubble, known) == rate


@pytest.mark.parametrize(
    ("mesh", "known", "gib"),
    [
        pytest.param(ALL, [], 0.0, id="nothing is known"),
        pytest.param(ALL, [Mesh(1, 8, tp=2)], 0.0, id="less tp divides less"),
        pytest.param(ALL, [Mesh(2, 8)], 0.0, id="fewer copies divide more"),
        pytest.param(Mesh(1, 8, tp=2), [ALL], 6 + 34 / 2, id="tp divides activations"),
        pytest.param(Mesh(2, 8), [ALL], 2 * 6 + 34, id="two copies"),
        pytest.param(Mesh(1, 2, tp=2, pp=4), [ALL, Mesh(1, 8, pp=2)], 6 + 34 / 4, id="of a pipeline"),
    ],
)
def test_memory(mesh: Mesh, known: list[Mesh], gib: float) -> None:
    assert tensors_at_least(mesh, [traced(other) for other in known]) == gib
