"""Groups of ranks, bandwidths as nccl-tests define them, and the line through measured times."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flagperf.contract.fabric import KIB, Curve, groups_of, message_sizes
from flagperf.contract.mesh import Mesh
from flagperf.contract.trace import Collective
from flagperf.predict import links

GROUPS = [
    pytest.param(1, 1, Mesh(), {}, id="one rank"),
    pytest.param(2, 2, Mesh(2), {"node, all, dp_replicate": [[0, 1]]}, id="one node"),
    pytest.param(2, 1, Mesh(1, 2), {"nodes, all, dp_shard": [[0, 1]]}, id="two nodes"),
    pytest.param(
        8,
        4,
        Mesh(2, 2, 2),
        {
            "node": [[0, 1, 2, 3], [4, 5, 6, 7]],
            "nodes, dp_replicate": [[0, 4], [1, 5], [2, 6], [3, 7]],
            "all": [[0, 1, 2, 3, 4, 5, 6, 7]],
            "dp_shard": [[0, 2], [1, 3], [4, 6], [5, 7]],
            "tp": [[0, 1], [2, 3], [4, 5], [6, 7]],
        },
        id="a mesh on two nodes",
    ),
]


@pytest.mark.parametrize(("size", "local_size", "mesh", "expected"), GROUPS)
def test_groups(size: int, local_size: int, mesh: Mesh, expected: dict[str, list[list[int]]]) -> None:
    assert groups_of(size, local_size, mesh) == expected


def test_sizes() -> None:
    assert message_sizes(KIB, 64 * KIB) == [KIB, 4 * KIB, 16 * KIB, 64 * KIB]
    assert len(message_sizes(KIB, KIB**3)) == 11


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all_reduce", 1.5),
        ("all_gather", 0.75),
        ("reduce_scatter", 0.75),
        ("broadcast", 1),
        ("all_to_all", 0.75),
        ("send_recv", 1),
        ("host_to_device", 1),
    ],
)
def test_bus_bandwidth_of_four_ranks(kind: str, factor: float) -> None:
    curve = Curve(kind, "node", 4, 4, (1000,), (1e-6,))
    assert (curve.algorithm_bandwidths, curve.bus_bandwidths) == ((1e9,), (pytest.approx(factor * 1e9),))


LINES = [
    pytest.param(lambda size: 5e-6 + size / 1e9, (5e-6, 1e9), id="a straight line"),
    pytest.param(lambda size: size / 1e9, (0.0, 1e9), id="no latency"),
    pytest.param(lambda _: 5e-6, None, id="no bandwidth"),
]


@pytest.mark.parametrize(("time", "expected"), LINES)
def test_line(time: Callable[[int], float], expected: tuple[float, float] | None) -> None:
    sizes = tuple(message_sizes(KIB, KIB**2))
    line = Curve("all_reduce", "node", 2, 2, sizes, tuple(map(time, sizes))).line
    assert (line and (round(line.alpha, 12), round(line.beta))) == expected


def test_predict_gives_the_measured_times_of_the_measured_groups() -> None:
    sizes = tuple(message_sizes(KIB, KIB**3))
    inside = Curve("all_reduce", "node", 8, 8, sizes, tuple(9e-6 + size / 2e11 for size in sizes))
    between = Curve("all_reduce", "nodes, dp_replicate", 2, 1, sizes, tuple(3e-5 + size / 1e10 for size in sizes))
    unknown = links.LinkFigures(None, None, 0.0, 0.0, 8, "a data sheet")
    figures = links.of_fabric(unknown, [inside, between])
    message = Collective("all_reduce", "tp", 8, "float32", "forward", 1, 10**6)
    assert links.seconds(message, links.Group(8, 8), figures) == pytest.approx(9e-6 + 10**6 / 2e11)
    assert links.seconds(message, links.Group(2, 1), figures) == pytest.approx(3e-5 + 10**6 / 1e10)
    assert figures.source == "the probe of this job"
    assert links.of_fabric(unknown, []) == unknown
