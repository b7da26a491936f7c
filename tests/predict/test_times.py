"""The least time of a step, from counts that a person can multiply."""

from __future__ import annotations

import pytest

from flagperf.contract.trace import Collective
from flagperf.predict import links
from flagperf.predict.links import Group, LinkFigures

LINKS = LinkFigures(100e9, 10e9, 1e-6, 5e-6, devices=8, source="test")


@pytest.mark.parametrize(
    ("kind", "group", "seconds"),
    [
        pytest.param("all_reduce", Group(8, 8), 2 * (7 / 8 * 0.01 + 3e-6), id="all-reduce in a node"),
        pytest.param("all_gather", Group(8, 8), 7 / 8 * 0.01 + 3e-6, id="all-gather in a node"),
        pytest.param("reduce_scatter", Group(2, 1), 1 / 2 * 0.1 + 5e-6, id="one device of each of two nodes"),
        # two nodes of eight: half of the message leaves a node, through eight adapters
        pytest.param("all_reduce", Group(16, 8), 2 * (max(7 / 8 * 0.01, 0.1 / 16) + 8e-6), id="two nodes"),
        pytest.param("all_to_all", Group(16, 8), 8 / 16 * 0.1 + 8e-6, id="all-to-all over two nodes"),
        pytest.param("broadcast", Group(4, 4), 0.01 + 2e-6, id="broadcast"),
        pytest.param("send", Group(2, 2), 0.01 + 1e-6, id="to a neighbour in the node"),
        pytest.param("send", Group(2, 1), 0.1 + 5e-6, id="to a neighbour in another node"),
        pytest.param("recv", Group(2, 1), 0.0, id="what the neighbour sends"),
        pytest.param("all_reduce", Group(1, 1), 0.0, id="alone"),
    ],
)
def test_collectives(kind: str, group: Group, seconds: float) -> None:
    """A message of 1 GB on links of 100 GB/s within a node and 10 GB/s between nodes."""
    collective = Collective(kind, "dp_shard", group.ranks, "float32", "backward", 1, 10**9)
    assert links.seconds(collective, group, LINKS) == pytest.approx(seconds)
