"""One case at several scales and meshes: throughput, efficiency, what fits, and which mesh is fastest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from flagperf.contract.mesh import Mesh
from flagperf.contract.trace import Collective, Trace
from flagperf.predict.times import Figures, StepTimes, job_times, mesh_of, missing

COUNTS = (1, 2, 4, 8)  # ranks along tp and pp among which a mesh is chosen


@dataclass(frozen=True)
class Scale:
    """A case on a number of devices, as predicted."""

    nnodes: int
    nproc: int
    mesh: Mesh
    samples: int  # of the whole job in a step
    operations: float  # FLOP of a step of one rank, recomputation included
    times: StepTimes | None  # None: figures of the product are missing
    missing: tuple[str, ...]  # these figures
    source: str  # of the figures that are known
    peak: float | None  # FLOP/s of one device in the format of most operations
    memory: float  # GiB that a rank needs
    limit: float | None  # GiB of a device; None: not known
    messages: tuple[Collective, ...]  # of a step of one rank

    @property
    def devices(self) -> int:
        """Ranks of the job."""
        return self.nnodes * self.nproc

    @property
    def fits(self) -> bool:
        """Whether a device holds a rank."""
        return self.limit is None or self.memory <= self.limit

    def rate(self, *, fused: bool = True, overlap: bool = True) -> float | None:
        """Samples/s of the job at most."""
        return None if self.times is None else self.samples / self.times.at_least(fused=fused, overlap=overlap)

    def mfu(self, *, fused: bool = True, overlap: bool = True) -> float | None:
        """Operations of the traced step / (peak x least time): the share of the peak that the bound allows."""
        if self.times is None or self.peak is None:
            return None
        return self.operations / self.peak / self.times.at_least(fused=fused, overlap=overlap)


def scale_of(
    trace: Trace, config: Mapping[str, Any], figures: Figures, memory: float, limit: float | None = None
) -> Scale:
    """The scale of a traced job.

    Args:
        memory: GiB that a rank needs, with the margin.
        limit: GiB of a device.
    """
    mesh = mesh_of(config)
    counted = max(trace.operators, key=lambda operator: operator.operations, default=None)
    return Scale(
        nnodes=config["nnodes"],
        nproc=config["nproc"],
        mesh=mesh,
        samples=trace.samples * mesh.data_ranks,
        operations=trace.operations,
        times=job_times(trace, config, figures),
        missing=missing(trace, mesh, figures),
        source=figures.source,
        peak=figures.speeds.peak(counted.dtype) if counted else None,
        memory=memory,
        limit=limit,
        messages=trace.collectives,
    )


def efficiency(scale: Scale, scales: Sequence[Scale]) -> float | None:
    """Throughput of a device, over that of the fewest nodes with the same tp."""
    alike = [other for other in scales if other.mesh.tp == scale.mesh.tp and other.rate() is not None]
    least = min(alike, key=lambda other: other.devices, default=None)
    rate = scale.rate()
    if least is None or rate is None:
        return None
    return rate / scale.devices / ((least.rate() or 0.0) / least.devices)


def smallest(scales: Iterable[Scale]) -> Scale | None:
    """The scale with the fewest devices that hold the ranks; of several the fastest."""
    fitting = [scale for scale in scales if scale.fits]
    return min(fitting, key=lambda scale: (scale.devices, -(scale.rate() or 0.0)), default=None)


def fastest(scales: Iterable[Scale]) -> Scale | None:
    """The scale with the highest throughput among those that fit; without times the one that needs least memory."""
    fitting = [scale for scale in scales if scale.fits]
    return max(fitting, key=lambda scale: (scale.rate() or 0.0, -scale.memory), default=None)


def candidates(nnodes: int, nproc: int, tps: Iterable[int] = COUNTS, pps: Iterable[int] = COUNTS) -> Iterator[Mesh]:
    """Meshes to choose from: tp within a node; a copy of the network on all nodes that a stage has, or on one.

    Args:
        tps: that divide the layers of the network.
        pps: that divide its blocks.
    """
    world = nnodes * nproc
    for pp, tp in product(pps, tps):
        data_ranks, left = divmod(world, pp * tp)
        if nproc % tp == 0 and left == 0:
            for shard in dict.fromkeys((data_ranks, nproc // tp)):
                if data_ranks % shard == 0:
                    yield Mesh(data_ranks // shard, shard, tp, pp)
