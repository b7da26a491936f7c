"""The fastest of several meshes by prediction: the most promising one is traced first, until no other can be faster.

Bounds of the traced meshes (flagperf/predict/mesh_bounds.py) tell which of the others need no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flagperf.config.schema.values import JobConfig
from flagperf.contract.mesh import Mesh
from flagperf.contract.pipeline import bubble_of
from flagperf.contract.trace import Trace
from flagperf.predict.memory import Margin
from flagperf.predict.mesh_bounds import TracedMesh, rate_at_most, tensors_at_least
from flagperf.predict.scaling import Scale, fastest
from flagperf.predict.tracing import Untraced

GAIN = 1.01  # a mesh that is faster by a smaller factor, at most, is not worth a trace


@dataclass
class MeshSearch:
    """The search among jobs that differ in their meshes.

    Args:
        trace: makes the trace of a job.
        say: shows progress and results.
    """

    trace: Callable[[JobConfig], Trace | Untraced]
    say: Callable[[str], object]
    traced: list[TracedMesh] = field(default_factory=list)
    untraced: list[Mesh] = field(default_factory=list)  # those that cannot be traced

    @property
    def best(self) -> Scale | None:
        """The fastest traced mesh that fits; None: no traced mesh fits."""
        return fastest(mesh.scale for mesh in self.traced)

    def run(self, jobs: Sequence[JobConfig]) -> None:
        """Trace the jobs that may be the fastest; say of each job what it reaches or why it is not traced."""
        left = list(jobs)
        while promising := [job for job in left if not self.why_not(job)]:
            job = max(promising, key=self._rate_at_most)  # of equal ones the first
            left.remove(job)
            self._add(job)
        for job in left:
            self.say(f"  {name_of(job.mesh)}: not traced, {self.why_not(job)}")

    def why_not(self, job: JobConfig) -> str:
        """Why a job need not be traced; "" where it may be the fastest."""
        if alike := [mesh for mesh in self.untraced if _divides_more(job.mesh, mesh)]:
            return f"as {name_of(alike[0])}"
        limit = self.traced[0].scale.limit if self.traced else None
        least = Margin.of(job.config).needed(tensors_at_least(job.mesh, self.traced))
        if limit is not None and least > limit:
            return f"it needs at least {least:.1f} GiB"
        if (best := self.best) is None:
            return ""
        rate, bound = best.rate(), self._rate_at_most(job)
        if rate is None:
            return "another mesh with fewer stages fits" if job.mesh.pp > best.mesh.pp else ""
        return f"it reaches at most {bound:.4g} samples/s" if bound <= GAIN * rate else ""

    def _add(self, job: JobConfig) -> None:
        answer = self.trace(job)
        if isinstance(answer, Untraced):
            self.untraced.append(job.mesh)
            self.say(f"  {name_of(job.mesh)}: cannot be traced, {answer.reason}")
            return
        self.traced.append(TracedMesh.of(answer, job.config))
        self.say(f"  {name_of(job.mesh)}: {result_of(self.traced[-1].scale)}")

    def _rate_at_most(self, job: JobConfig) -> float:
        return rate_at_most(job.mesh, bubble_of(job.config) or 0.0, self.traced)


def _divides_more(mesh: Mesh, other: Mesh) -> bool:
    """Whether a mesh divides the same things, layers or blocks, over as many ranks as another or more."""
    return all((few > 1) == (many > 1) and few <= many for few, many in ((other.tp, mesh.tp), (other.pp, mesh.pp)))


def name_of(mesh: Mesh) -> str:
    """The sides with several ranks, such as "dp_shard=8 x tp=2"."""
    return " x ".join(f"{side}={size}" for side, size in vars(mesh).items() if size > 1) or "one rank"


def result_of(scale: Scale) -> str:
    """What a traced mesh reaches and needs, in words."""
    memory = f"{scale.memory:.1f} GiB of a device"
    if not scale.fits:
        return f"does not fit, {memory}"
    return f"at most {rate:.4g} samples/s, {memory}" if (rate := scale.rate()) else f"no times, {memory}"
