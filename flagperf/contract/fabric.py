"""How the links of a job are measured: groups of ranks, sizes of messages, bandwidths, and a straight line of times.

The bandwidths are those of nccl-tests (doc/PERFORMANCE.md). Algorithm bandwidth = size / time. Bus bandwidth =
algorithm bandwidth x factor: what passes the link of one rank, whatever the number of ranks. The size is that of the
largest buffer of a rank: the result of an all-gather, the input of a reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, List

from flagperf.contract.mesh import SIDES, Mesh

KIB = 1024
STEP = 4  # each size is so many times the one before it

COLLECTIVES: dict[str, Callable[[int], float]] = {  # name → bus bandwidth / algorithm bandwidth, of n ranks
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "broadcast": lambda _: 1.0,
    "all_to_all": lambda n: (n - 1) / n,
    "send_recv": lambda _: 1.0,
}
COPIES = ("host_to_device", "device_to_host", "device_to_device")
DEVICE = "device"  # the group of copies: each device alone, all at the same time
NODE, NODES, ALL = "node", "nodes", "all"

Groups = List[List[int]]  # each rank is in one of them


@dataclass(frozen=True)
class Line:
    """Time of a message = alpha + size / beta."""

    alpha: float  # seconds
    beta: float  # bytes/s


@dataclass(frozen=True)
class Curve:
    """The times of one collective, or copy, over the size of the message."""

    kind: str  # of COLLECTIVES or COPIES
    group: str  # "node", "nodes", "all", a side of the mesh, or several of them: "all, dp_replicate"
    ranks: int  # of one group
    per_node: int  # of these ranks on one node
    sizes: tuple[int, ...]  # bytes
    seconds: tuple[float, ...]  # of a call, on the slowest rank
    reason: str = ""  # why sizes are missing, or how the curve was measured otherwise

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Curve:
        """A curve of a log or a file."""
        fields = {name: record[name] for name in cls.__dataclass_fields__}
        return cls(**{**fields, "sizes": tuple(record["sizes"]), "seconds": tuple(record["seconds"])})

    @property
    def factor(self) -> float:
        """Bus bandwidth / algorithm bandwidth."""
        return COLLECTIVES[self.kind](self.ranks) if self.kind in COLLECTIVES else 1.0

    @property
    def algorithm_bandwidths(self) -> tuple[float, ...]:
        """Bytes/s by size."""
        return tuple(size / seconds for size, seconds in zip(self.sizes, self.seconds))

    @property
    def bus_bandwidths(self) -> tuple[float, ...]:
        """Bytes/s by size."""
        return tuple(self.factor * bandwidth for bandwidth in self.algorithm_bandwidths)

    @property
    def line(self) -> Line | None:
        """The straight line with the least squares of relative errors; None where the times give none.

        Relative errors: with those in seconds the largest message would decide alone, and alpha would be noise.
        """
        if len(self.sizes) < 2:
            return None
        pairs = [(1 / seconds, size / seconds) for size, seconds in zip(self.sizes, self.seconds)]
        uu, uv, vv = (sum(a * b for a, b in products) for products in _products(pairs))
        u, v = sum(first for first, _ in pairs), sum(second for _, second in pairs)
        determinant = uu * vv - uv * uv
        if determinant <= 0:
            return None
        alpha, slope = (u * vv - v * uv) / determinant, (v * uu - u * uv) / determinant
        if alpha < 0:
            alpha, slope = 0.0, v / vv
        return Line(alpha, 1 / slope) if slope > 0 else None


def _products(pairs: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, float]], ...]:
    """The pairs u u, u v and v v."""
    first, second = [u for u, _ in pairs], [v for _, v in pairs]
    return list(zip(first, first)), list(zip(first, second)), list(zip(second, second))


def message_sizes(least: int, most: int) -> list[int]:
    """The sizes from `least` to `most` bytes, each STEP times the one before it."""
    sizes = [least]
    while sizes[-1] * STEP <= most:
        sizes.append(sizes[-1] * STEP)
    return sizes


def groups_of(size: int, local_size: int, mesh: Mesh) -> dict[str, Groups]:
    """The ways in which a job's ranks form groups: within nodes, between nodes, all together, and the mesh's sides.

    Args:
        size: ranks of the job.
        local_size: ranks of each node.

    Returns:
        Name → groups of more than one rank. Equal ways share a name: "node, tp".
    """
    named = {
        NODE: [list(range(first, first + local_size)) for first in range(0, size, local_size)],
        NODES: [list(range(local, size, local_size)) for local in range(local_size)],
        ALL: [list(range(size))],
        **{side: mesh.groups(side) for side in SIDES},
    }
    names: dict[str, list[str]] = {}
    ways: dict[str, Groups] = {}
    for name, groups in named.items():
        if len(groups[0]) > 1:
            names.setdefault(repr(groups), []).append(name)
            ways[repr(groups)] = groups
    return {", ".join(names[key]): ways[key] for key in ways}
