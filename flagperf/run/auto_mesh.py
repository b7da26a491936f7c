"""`parallel=auto`: the mesh with the highest predicted throughput among those that fit takes the place of `auto`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from flagperf.config.compose import compose
from flagperf.config.parts.batch_size import GLOBAL
from flagperf.config.schema.values import JobConfig
from flagperf.contract.mesh import DATA_PARALLEL, Mesh
from flagperf.errors import ConfigError
from flagperf.predict.scaling import COUNTS, candidates
from flagperf.run.mesh_search import MeshSearch
from flagperf.run.predicted import Effect, traces

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
    job = _job(rest, config_dirs)
    if job.strategy in (None, *DATA_PARALLEL):
        raise _refused("each rank of this case holds the whole network", f"no {AUTO}, or a strategy that shares it")
    words, sentence = _choice(job, say)
    say(sentence)
    return [*rest, *words]


def _job(overrides: Sequence[str], config_dirs: Sequence[Path]) -> JobConfig:
    """The job before the choice, with a mesh that the case allows: its own may have too many data ranks."""
    words = [*overrides, "dry_run=true"]
    try:
        return compose(words, config_dirs)
    except ConfigError as error:
        if error.key != GLOBAL:
            raise
        refusal = error
    for pp, tp in product(COUNTS, COUNTS):
        try:
            return compose([*words, f"parallel.mesh.tp={tp}", f"parallel.mesh.pp={pp}"], config_dirs)
        except ConfigError:
            continue
    raise refusal


def _choice(job: JobConfig, say: Callable[[str], object]) -> tuple[list[str], str]:
    """The words that set the fastest mesh, and the sentence that reports the choice."""
    assert job.changed is not None
    jobs, reasons = [], []
    for mesh in candidates(job.nnodes, job.nproc):
        try:
            jobs.append(job.changed(_sides(mesh)))
        except ConfigError as error:
            reasons.append(error.problem)
    say(f"{AUTO}: of {len(jobs)} meshes those are traced that may be the fastest; a trace takes 10 s or more")
    for reason, number in Counter(reasons).items():
        say(f"  {number} more {'is' if number == 1 else 'are'} not possible: {reason}")
    search = MeshSearch(lambda job: traces([job])[0], say)
    search.run(jobs)
    best = search.best
    if best is None:
        raise _refused(
            f"no mesh of {job.nnodes} x {job.nproc} devices fits",
            "flagperf predict without parallel=auto names changes that fit",
        )
    words = Effect(_sides(best.mesh), None).words
    rate = f"at most {best.rate():.4g} samples/s" if best.rate() else "no times, so the least memory"
    return words.split(), (
        f"{AUTO}: {words}, the fastest predicted of {len(jobs)} meshes: {rate}, {best.memory:.1f} GiB of a device"
    )


def _sides(mesh: Mesh) -> dict[str, int]:
    return {f"parallel.mesh.{side}": size for side, size in vars(mesh).items()}


def _refused(problem: str, advice: str) -> ConfigError:
    return ConfigError(problem, where="command line", key="parallel", given="auto", advice=advice)
