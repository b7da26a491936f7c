"""The search for the fastest mesh, among traces of known time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from predict.test_scaling import HARDWARE, TRACE, config

from flagperf.contract.hardware import GIB
from flagperf.contract.mesh import Mesh
from flagperf.contract.trace import MemoryPeak, Trace
from flagperf.predict.tracing import Untraced
from flagperf.run.mesh_search import MeshSearch

ALL, COPIES, TP, MORE_TP, PP = Mesh(1, 16), Mesh(2, 8), Mesh(1, 8, tp=2), Mesh(1, 4, tp=4), Mesh(1, 8, pp=2)
NO_TIMES = {**HARDWARE, "memory_bandwidth": None}


@dataclass
class Job:
    """What the search reads of a job: 16 samples in a step, 4 micro batches."""

    mesh: Mesh
    hardware: Mapping[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        return {
            **config(nnodes=2),
            "hardware": {**self.hardware, "memory_gib": 80},
            "framework": {},
            "vendor": {"device": "cuda"},
            "parallel": {"mesh": vars(self.mesh)},
            "gradient_accumulation_steps": 4,
        }


def traced(mesh: Mesh, seconds: float, gib: float) -> Trace:
    operator = replace(TRACE.operators[0], operations=seconds * 1e12)
    memory = MemoryPeak(0, 0, 0, int(gib * GIB), 0, 0, "", "forward")
    return replace(TRACE, samples=16 // mesh.data_ranks, memory=memory, operators=(operator,), collectives=())


@pytest.mark.parametrize(
    ("traces", "hardware", "said", "best"),
    [
        pytest.param(
            {ALL: (1.0, 40.0)},
            HARDWARE,
            [
                "dp_shard=16: at most 16 samples/s, 40.0 GiB of a device",
                "dp_replicate=2 x dp_shard=8: not traced, it reaches at most 16 samples/s",
                "dp_shard=8 x tp=2: not traced, it reaches at most 16 samples/s",
                "dp_shard=4 x tp=4: not traced, it reaches at most 16 samples/s",
                "dp_shard=8 x pp=2: not traced, it reaches at most 12.8 samples/s",
            ],
            ALL,
            id="the first is as fast as it computes",
        ),
        pytest.param(
            {ALL: (1.0, 90.0), TP: (1.2, 50.0)},
            HARDWARE,
            [
                "dp_shard=16: does not fit, 90.0 GiB of a device",
                "dp_shard=8 x tp=2: at most 13.33 samples/s, 50.0 GiB of a device",
                "dp_replicate=2 x dp_shard=8: not traced, it needs at least 90.0 GiB",
                "dp_shard=4 x tp=4: not traced, it reaches at most 13.33 samples/s",
                "dp_shard=8 x pp=2: not traced, it reaches at most 12.8 samples/s",
            ],
            TP,
            id="the bubble makes a pipeline slower",
        ),
        pytest.param(
            {ALL: (1.0, 90.0), TP: (2.0, 50.0), PP: (1.28, 60.0)},
            HARDWARE,
            [
                "dp_shard=16: does not fit, 90.0 GiB of a device",
                "dp_shard=8 x tp=2: at most 8 samples/s, 50.0 GiB of a device",
                "dp_shard=8 x pp=2: at most 12.5 samples/s, 60.0 GiB of a device",
                "dp_replicate=2 x dp_shard=8: not traced, it needs at least 90.0 GiB",
                "dp_shard=4 x tp=4: not traced, it reaches at most 8 samples/s",
            ],
            PP,
            id="a pipeline is faster",
        ),
        pytest.param(
            {ALL: (1.0, 400.0)},
            HARDWARE,
            [
                "dp_shard=16: does not fit, 400.0 GiB of a device",
                "dp_replicate=2 x dp_shard=8: not traced, it needs at least 400.0 GiB",
                "dp_shard=8 x tp=2: not traced, it needs at least 200.0 GiB",
                "dp_shard=4 x tp=4: not traced, it needs at least 100.0 GiB",
                "dp_shard=8 x pp=2: not traced, it needs at least 200.0 GiB",
            ],
            None,
            id="none fits",
        ),
        pytest.param(
            {ALL: (1.0, 40.0), COPIES: (1.0, 50.0), TP: None},
            NO_TIMES,
            [
                "dp_shard=16: no times, 40.0 GiB of a device",
                "dp_replicate=2 x dp_shard=8: no times, 50.0 GiB of a device",
                "dp_shard=8 x tp=2: cannot be traced, no reason",
                "dp_shard=4 x tp=4: not traced, as dp_shard=8 x tp=2",
                "dp_shard=8 x pp=2: not traced, another mesh with fewer stages fits",
            ],
            ALL,
            id="no times",
        ),
    ],
)
def test_search(
    traces: Mapping[Mesh, tuple[float, float] | None],
    hardware: Mapping[str, Any],
    said: list[str],
    best: Mesh | None,
) -> None:
    def trace(job: Any) -> Trace | Untraced:
        figures = traces[job.mesh]
        return Untraced("no reason") if figures is None else traced(job.mesh, *figures)

    lines: list[str] = []
    search = MeshSearch(trace, lines.append)
    jobs: list[Any] = [Job(mesh, hardware) for mesh in (ALL, COPIES, TP, MORE_TP, PP)]
    search.run(jobs)
    assert (lines, search.best and search.best.mesh) == ([f"  {line}" for line in said], best)
