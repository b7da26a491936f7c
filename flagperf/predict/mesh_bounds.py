"""What the traces of some meshes tell about a mesh without a trace: its highest throughput, and its least memory.

Both hold because a division saves no work. Ranks that share layers or blocks compute as much together as one rank
would, and n times as many ranks hold no less than an n-th each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flagperf.contract.hardware import GIB
from flagperf.contract.mesh import Mesh
from flagperf.contract.trace import MemoryPeak, Trace
from flagperf.predict.memory import Fit
from flagperf.predict.scaling import Scale, scale_of
from flagperf.predict.times import Figures, computing, figures_of


@dataclass(frozen=True)
class TracedMesh:
    """A mesh of a job that was traced."""

    scale: Scale
    held: MemoryPeak
    computed: float | None  # samples/s of the job, if its ranks only computed; None: figures are missing

    @classmethod
    def of(cls, trace: Trace, config: Mapping[str, Any]) -> TracedMesh:
        """That of a traced job on the product of its configuration."""
        fit, figures = Fit.of(trace, config), figures_of(config)
        scale = scale_of(trace, config, figures, fit.needed, fit.memory)
        return cls(scale, trace.memory, _computed(trace, scale, figures))


def _computed(trace: Trace, scale: Scale, figures: Figures) -> float | None:
    return None if scale.times is None else scale.samples / computing(trace, scale.mesh, figures)


def rate_at_most(mesh: Mesh, bubble: float, traced: Sequence[TracedMesh]) -> float:
    """Samples/s of a job on another mesh, whose ranks compute all the time that the bubble leaves them.

    Meshes with as many ranks along tp or fewer tell this: more ranks along tp send more.

    Args:
        bubble: share of a step in which a rank waits for other stages.
    """
    known = [other.computed for other in traced if other.computed is not None and other.scale.mesh.tp <= mesh.tp]
    return (1 - bubble) * min(known, default=math.inf)


def tensors_at_least(mesh: Mesh, traced: Sequence[TracedMesh]) -> float:
    """GiB of the tensors of a rank on another mesh.

    Meshes that divide nothing into more parts tell this. All ranks of a copy share parameters and optimizer evenly; all
    else is shared along tp and pp at best.
    """
    return max((_share(mesh, other) for other in traced if _divides_less(other.scale.mesh, mesh)), default=0.0)


def _divides_less(other: Mesh, mesh: Mesh) -> bool:
    return other.tp <= mesh.tp and other.pp <= mesh.pp and other.dp_replicate <= mesh.dp_replicate


def _share(mesh: Mesh, other: TracedMesh) -> float:
    known, held = other.scale.mesh, other.held
    of_copy = held.parameters + held.optimizer
    rest = (held.total - of_copy) * known.tp * known.pp / (mesh.tp * mesh.pp)
    return (of_copy * known.parts / mesh.parts + rest) / GIB
