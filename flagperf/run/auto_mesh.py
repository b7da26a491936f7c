"""`parallel=auto`: the mesh with the highest predicted throughput among those that fit takes the place of `auto`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.config.compose import compose
from flagperf.config.schema.values import JobConfig
from flagperf.contract.mesh import DATA_PARALLEL
from flagperf.contract.trace import Trace
from flagperf.errors import ConfigError
from flagperf.predict.memory import Fit
from flagperf.predict.scaling import Scale, candidates, fastest, scale_of
from flagperf.predict.times import figures_of
from flagperf.run.predicted import Effect, changed, traces

AUTO = "parallel=auto"


def with_mesh(
    overrides: Sequence[str], *, multirun: bool, config_dirs: Sequence[Path], say: Callable[[str], object]
) -> list[str]:
    """The overrides with the chosen mesh in place of `parallel=auto`; without `parallel=auto` the same overrides.

    Raises:
        ConfigError: the job shares no network over its ranks, several jobs are asked for, or no mesh fits.
        FlagperfError: no job can be traced on this machine.
    """
    if AUTO not in overrides:
        return list(overrides)
    if multirun:
        raise _refused("one mesh is chosen for one job", "give one value of each key, without -m")
    rest = [word for word in overrides if word != AUTO]
    job = compose([*rest, "dry_run=true"], config_dirs)
    if job.strategy in (None, *DATA_PARALLEL):
        raise _refused("each rank of this case holds the whole network", f"no {AUTO}, or a strategy that shares it")
    words, sentence = _choice(job)
    say(sentence)
    return [*rest, *words]


def _choice(job: JobConfig) -> tuple[list[str], str]:
    """The words that set the fastest mesh, and the sentence that reports the choice."""
    meshes = list(candidates(job.nnodes, job.nproc))
    variants = [(_sides(vars(mesh)), changed(job, _sides(vars(mesh)))) for mesh in meshes]
    allowed = [(change, variant) for change, variant in variants if isinstance(variant, JobConfig)]
    answers = traces([variant for _, variant in allowed]) if allowed else []
    scales: dict[str, Scale] = {}
    for (change, variant), answer in zip(allowed, answers, strict=True):
        if isinstance(answer, Trace):
            fit = Fit.of(answer, variant.config)
            figures = figures_of(variant.config)
            scales[Effect(change, fit).words] = scale_of(answer, variant.config, figures, fit.needed, fit.memory)
    best = fastest(scales.values())
    if best is None:
        raise _refused(f"no mesh of {job.nnodes} x {job.nproc} devices fits", "flagperf predict names changes that fit")
    words = next(words for words, scale in scales.items() if scale is best)
    rate = f"at most {best.rate():.4g} samples/s" if best.rate() else "no times, so the least memory"
    return words.split(), (
        f"{AUTO}: {words}, the fastest of {len(scales)} predicted meshes: {rate}, {best.memory:.1f} GiB of a device"
    )


def _sides(sides: Mapping[str, int]) -> dict[str, Any]:
    return {f"parallel.mesh.{side}": size for side, size in sides.items()}


def _refused(problem: str, advice: str) -> ConfigError:
    return ConfigError(problem, where="command line", key="parallel", given="auto", advice=advice)
