"""A traced step on a product: how long it takes at least, and which operators that time is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flagperf.contract.fabric import Curve
from flagperf.contract.mesh import SIDES, Mesh
from flagperf.contract.records import ProbedDevice
from flagperf.contract.trace import Collective, Trace
from flagperf.predict import links, speeds
from flagperf.predict.links import Group, LinkFigures
from flagperf.predict.roofline import LINKS, ClassTime, class_times
from flagperf.predict.speeds import Speeds

COMMUNICATION = "communication"
WAITED_FOR = ("tp", "cp", "ep")  # sides whose collectives a layer waits for: they cannot go on beside its computation


@dataclass(frozen=True)
class StepTimes:
    """The least times of a step, in seconds."""

    eager: tuple[ClassTime, ...]
    fused: tuple[ClassTime, ...]
    samples: int  # of the whole job in the step
    waited: float  # collectives that nothing can go on beside
    overlapped: float  # those that may go on beside the computation

    def at_least(self, *, fused: bool, overlap: bool) -> float:
        """Seconds of a step, with or without fused operators and communication beside computation."""
        computing = sum(time.seconds for time in (self.fused if fused else self.eager)) + self.waited
        return max(computing, self.waited + self.overlapped) if overlap else computing + self.overlapped

    def classes(self, *, fused: bool) -> tuple[ClassTime, ...]:
        """The classes with the communication that is not hidden at best, the longest first."""
        classes = self.fused if fused else self.eager
        left = self.at_least(fused=fused, overlap=True) - sum(time.seconds for time in classes)
        if left > 1e-12:
            classes = (*classes, ClassTime(COMMUNICATION, left, LINKS))
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
    groups = [_group(collective, mesh, figures.links) for collective in trace.collectives]
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
    talk = {True: 0.0, False: 0.0}
    for collective in trace.collectives:
        group = _group(collective, mesh, figures.links)
        talk[collective.side in WAITED_FOR] += links.seconds(collective, group, figures.links)
    eager, fused = (class_times(trace.operators, figures.speeds, fused=fused) for fused in (False, True))
    return StepTimes(eager, fused, trace.samples * mesh.data_ranks, talk[True], talk[False])


def _group(collective: Collective, mesh: Mesh, figures: LinkFigures) -> Group:
    first = collective.side.split(" x ")[-1]  # of several sides, the one whose ranks are neighbours
    return links.group_of(collective.group, mesh.stride(first) if first in SIDES else 1, figures)
