"""A traced step on a product: how long it takes at least, and which operators that time is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flagperf.contract.fabric import Curve
from flagperf.contract.mesh import SIDES, Mesh
from flagperf.contract.records import ProbedDevice
from flagperf.contract.trace import Collective, PipelineRank, Trace
from flagperf.predict import links, speeds
from flagperf.predict.links import Group, LinkFigures
from flagperf.predict.roofline import LINKS, ClassTime, class_times
from flagperf.predict.speeds import Speeds

COMMUNICATION = "communication"
PIPELINE, STAGES = "pipeline bubble", "other stages"
WAITED_FOR = ("tp", "cp", "ep")  # sides whose collectives a layer waits for: they cannot go on beside its computation

AnyCounts = TypeVar("AnyCounts", Trace, PipelineRank)


@dataclass(frozen=True)
class StepTimes:
    """The least times of a step, in seconds."""

    eager: tuple[ClassTime, ...]
    fused: tuple[ClassTime, ...]
    samples: int  # of the whole job in the step
    waited: float  # collectives that nothing can go on beside
    overlapped: float  # those that may go on beside the computation
    eager_bubble: float = 0.0  # in which this rank of a pipeline waits for the others
    fused_bubble: float = 0.0

    def busy(self, *, fused: bool) -> float:
        """Seconds of the operators, and of the collectives that nothing can go on beside."""
        return sum(time.seconds for time in (self.fused if fused else self.eager)) + self.waited

    def bubble(self, *, fused: bool) -> float:
        """Seconds in which this rank of a pipeline waits for the others."""
        return self.fused_bubble if fused else self.eager_bubble

    def at_least(self, *, fused: bool, overlap: bool) -> float:
        """Seconds of a step, with or without fused operators and communication beside computation."""
        computing = self.busy(fused=fused) + self.bubble(fused=fused)
        return max(computing, self.waited + self.overlapped) if overlap else computing + self.overlapped

    def classes(self, *, fused: bool) -> tuple[ClassTime, ...]:
        """The classes with the communication that is not hidden at best and the bubble, the longest first."""
        classes, bubble = self.fused if fused else self.eager, self.bubble(fused=fused)
        left = self.at_least(fused=fused, overlap=True) - bubble - sum(time.seconds for time in classes)
        others = ClassTime(COMMUNICATION, left, LINKS), ClassTime(PIPELINE, bubble, STAGES)
        classes = (*classes, *(time for time in others if time.seconds > 1e-12))
        return tuple(sorted(classes, key=lambda time: -time.seconds))


@dataclass(frozen=True)
class Figures:
    """What times are computed from."""

    speeds: Speeds
    links: LinkFigures

    @property
    def source(self) -> str:
        """Where the figures are from."""
        speeds, links = self.speeds.source, self.links.source
        return speeds if links == speeds else f"{speeds} (devices) and {links} (links)"


def figures_of(config: Mapping[str, Any], probe: Sequence[ProbedDevice] = (), curves: Sequence[Curve] = ()) -> Figures:
    """The figures of a job's product; those that a probe measured take the place of the data sheet's.

    Args:
        probe: the devices of probe=alone or probe=run.
        curves: the links of probe=fabric.
    """
    sheet = speeds.of_data_sheet(config["hardware"], config["precision"])
    measured = speeds.of_probe(probe, config["precision"])
    of_links = links.of_data_sheet(config["hardware"], config["nproc"])
    return Figures(measured or sheet, links.of_fabric(links.of_probe(of_links, probe), curves))


def missing(trace: Trace, mesh: Mesh, figures: Figures) -> tuple[str, ...]:
    """Figures of the product without which there are no times of this step."""
    sent = [*trace.collectives, *(collective for rank in trace.pipeline for collective in rank.collectives)]
    groups = [_group(collective, mesh, figures.links) for collective in sent]
    return (*figures.speeds.missing, *figures.links.missing(groups))


def mesh_of(config: Mapping[str, Any]) -> Mesh:
    """The mesh of a configuration."""
    return Mesh.of(config["parallel"]["mesh"], config["nnodes"] * config["nproc"])


def job_times(trace: Trace, config: Mapping[str, Any], figures: Figures) -> StepTimes | None:
    """The least times of a job's step; None where figures are missing."""
    mesh = mesh_of(config)
    return None if missing(trace, mesh, figures) else step_times(trace, mesh, figures)


def step_times(trace: Trace, mesh: Mesh, figures: Figures) -> StepTimes:
    """The least times of a step on a product that has all figures: `missing` is empty."""
    times = _times(trace, mesh, figures, trace.samples * mesh.data_ranks)
    if not trace.pipeline:
        return times
    eager, fused = (
        _pipeline(trace.pipeline, mesh, figures, fused=fused) - times.busy(fused=fused) for fused in (False, True)
    )
    return replace(times, eager_bubble=eager, fused_bubble=fused)


def _times(counts: Trace | PipelineRank, mesh: Mesh, figures: Figures, samples: int = 0) -> StepTimes:
    """The least times of a step in which the rank waits for no other stage."""
    talk = {True: 0.0, False: 0.0}
    for collective in counts.collectives:
        group = _group(collective, mesh, figures.links)
        talk[collective.side in WAITED_FOR] += links.seconds(collective, group, figures.links)
    eager, fused = (class_times(counts.operators, figures.speeds, fused=fused) for fused in (False, True))
    return StepTimes(eager, fused, samples, talk[True], talk[False])


def _pipeline(ranks: Sequence[PipelineRank], mesh: Mesh, figures: Figures, *, fused: bool) -> float:
    """The least seconds of a step of a pipeline.

    It is as long as the work of each rank. The last rank begins when a micro batch has passed all ranks before it, and
    the step ends when the gradients of a micro batch have passed the same ranks: each of them computes one pass alone.
    With ranks that work equally long, this is the bubble of flagperf/contract/pipeline.py.
    """
    busy = [_times(rank, mesh, figures).busy(fused=fused) for rank in ranks]
    alone = [rank.alike * _times(_passes(rank), mesh, figures).busy(fused=fused) / rank.passes for rank in ranks[:-1]]
    return max(*busy, busy[-1] + sum(alone))


def computing(trace: Trace, mesh: Mesh, figures: Figures) -> float:
    """The least seconds of the forward and backward passes of the average rank, without messages that can be hidden."""
    ranks = [(rank.alike, _times(_passes(rank), mesh, figures)) for rank in trace.pipeline]
    each = ranks or [(1, _times(_passes(trace), mesh, figures))]
    return sum(alike * times.busy(fused=True) for alike, times in each) / sum(alike for alike, _ in each)


def _passes(counts: AnyCounts) -> AnyCounts:
    """The forward and backward passes alone."""
    operators = tuple(operator for operator in counts.operators if operator.phase != "optimizer")
    collectives = tuple(collective for collective in counts.collectives if collective.phase != "optimizer")
    return replace(counts, operators=operators, collectives=collectives)


def _group(collective: Collective, mesh: Mesh, figures: LinkFigures) -> Group:
    first = collective.side.split(" x ")[-1]  # of several sides, the one whose ranks are neighbours
    ranks = 2 if collective.kind in links.PAIRS else collective.group
    return links.group_of(ranks, mesh.stride(first) if first in SIDES else 1, figures)
