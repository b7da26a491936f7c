"""How long the collectives of a step take at least on a product's links: latency + bytes / bandwidth.

A group of n ranks on k nodes, r of it on each node. The bytes are those of rings within nodes and between nodes, which
no algorithm without computing switches goes below; the hops are those of trees.

| collective of S bytes       | bytes that a device sends         | passes |
|-----------------------------|-----------------------------------|--------|
| all-reduce                  | 2 S (n-1)/n                       | 2      |
| all-gather, reduce-scatter  | S (n-1)/n                         | 1      |
| all-to-all                  | S (n-1)/n                         | 1      |
| broadcast, reduce, send     | S                                 | 1      |

In a pass of an all-reduce, all-gather or reduce-scatter the devices of a node together send S (k-1)/k through their
adapters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flagperf.contract.fabric import NODE, NODES, Curve
from flagperf.contract.records import ProbedDevice
from flagperf.contract.trace import Collective

PROBE = "the probe of this job"
PASSES = {"all_reduce": 2}
WHOLE = ("broadcast", "reduce", "send")  # each rank has the whole message
PAIRS = ("send", "recv")  # between two neighbours of a group


@dataclass(frozen=True)
class Group:
    """The ranks that take part in a collective: the same number on each node."""

    ranks: int
    per_node: int

    @property
    def nodes(self) -> int:
        """How many nodes have a part of the group."""
        return math.ceil(self.ranks / self.per_node)


@dataclass(frozen=True)
class LinkFigures:
    """The links of one device: bytes/s in one direction, and seconds of a hop."""

    node: float | None
    network: float | None
    node_latency: float
    network_latency: float
    devices: int  # that the links of a node reach
    source: str

    def missing(self, groups: Sequence[Group]) -> tuple[str, ...]:
        """Figures without which there are no times of collectives of these groups."""
        inside = any(min(group.per_node, group.ranks) > 1 for group in groups)
        between = any(group.nodes > 1 for group in groups)
        known = {
            "links.node.bandwidth": not inside or self.node is not None,
            "links.network.bandwidth": not between or self.network is not None,
        }
        return tuple(name for name, is_known in known.items() if not is_known)


def of_data_sheet(hardware: Mapping[str, Any], nproc: int) -> LinkFigures:
    """What the file of a product says. `nproc`: ranks of a node."""
    links = hardware.get("links") or {}
    node, network = links.get("node") or {}, links.get("network") or {}
    return LinkFigures(
        node.get("bandwidth"),
        network.get("bandwidth"),
        node.get("latency") or 0.0,
        network.get("latency") or 0.0,
        max(node.get("devices") or 0, nproc),
        f"the data sheet of {hardware['name']}",
    )


def of_probe(figures: LinkFigures, devices: Sequence[ProbedDevice]) -> LinkFigures:
    """The links with the bus bandwidths that a probe measured in place of those of the data sheet.

    Between nodes the probe measures all ranks of a node at once, each on its part: the figure of a device is its share.
    """
    node = [device.figures["all_reduce_node"] for device in devices if "all_reduce_node" in device.figures]
    network = [device.figures["all_reduce"] for device in devices if "all_reduce" in device.figures]
    if not node and not network:
        return figures
    of_node = min(node) if node else figures.node
    per_node = max((sum(other.host == device.host for other in devices) for device in devices), default=1)
    of_network = min(network) / per_node if network else figures.network
    return LinkFigures(of_node, of_network, 0.0, 0.0, figures.devices, PROBE)


def of_fabric(figures: LinkFigures, curves: Sequence[Curve]) -> LinkFigures:
    """The links by the measured lines of all-reduces, such that `seconds` gives these times for the measured groups.

    An all-reduce of n neighbours takes alpha + size / beta = 2 (size (n-1)/n / bandwidth + hops x latency).
    """
    node, network = _measured(curves, NODE), _measured(curves, NODES)
    if node is not None:
        figures = replace(figures, node=node[0], node_latency=node[1], source=PROBE)
    if network is not None:
        figures = replace(figures, network=network[0], network_latency=network[1], source=PROBE)
    return figures


def _measured(curves: Sequence[Curve], group: str) -> tuple[float, float] | None:
    """Bandwidth and latency of a hop, by the all-reduce of a kind of group; None where it was not measured."""
    for curve in curves:
        line = curve.line
        if curve.kind == "all_reduce" and group in curve.group.split(", ") and line is not None:
            return line.beta * curve.factor, line.alpha / 2 / math.ceil(math.log2(curve.ranks))
    return None


def group_of(ranks: int, stride: int, links: LinkFigures) -> Group:
    """A group whose neighbours are `stride` ranks apart, as the mesh places them."""
    return Group(ranks, max(1, min(ranks, links.devices // stride)))


def seconds(collective: Collective, group: Group, links: LinkFigures) -> float:
    """The seconds of all calls of a collective in a step. The links have all that the group needs.

    Links work in both directions at once, and a rank of a pipeline receives as much as it sends: the sending counts.
    """
    if group.ranks < 2 or collective.kind == "recv":
        return 0.0
    size, passes = collective.bytes, PASSES.get(collective.kind, 1)
    inside, between = _shares(collective.kind, group)
    moving = max(
        inside * size / links.node if inside and links.node else 0.0,
        between * size / links.network if between and links.network else 0.0,
    )
    return passes * (moving + collective.calls * _hops(group, links))


def _shares(kind: str, group: Group) -> tuple[float, float]:
    """The parts of a message that one device sends in a pass: within its node, and through its own adapter."""
    n, k, r = group.ranks, group.nodes, min(group.per_node, group.ranks)
    if kind in WHOLE:
        return (1.0, 0.0) if k == 1 else (0.0, 1.0 / r)
    if kind == "all_to_all":
        return (r - 1) / n, (n - r) / n
    between = (k - 1) / (k * r)
    return (n - 1) / n - between, between


def _hops(group: Group, links: LinkFigures) -> float:
    """Seconds until the farthest rank of a tree has heard from the root."""
    inside = math.ceil(math.log2(min(group.per_node, group.ranks)))
    return inside * links.node_latency + math.ceil(math.log2(group.nodes)) * links.network_latency
