"""What is `auto` of a batch: `train_batch_size`, with the case's own size until a run has found the largest that fits;
and `gradient_accumulation_steps`, as many as the samples of a step ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flagperf.config.files.layer import Layer
from flagperf.config.files.sweep import JobOverrides
from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import Where
from flagperf.contract.mesh import Mesh
from flagperf.errors import ConfigError

KEY, AUTO = "train_batch_size", "auto"
MICRO_STEPS, GLOBAL = "gradient_accumulation_steps", "global_batch_size"
FOUND = "found by train_batch_size=auto"  # source of the change


def is_auto(final: Layer) -> bool:
    """Whether the size is to be found."""
    return bool(final.leaves.get(KEY) == AUTO)


def fitting(final: Layer, where: Where) -> tuple[int, ...] | None:
    """The sizes of which whole micro steps give the global batch, the smallest first; None: there is none to give."""
    wanted, nodes, devices = numbers = [final.get(key) for key in (GLOBAL, "nnodes", "nproc")]
    micro_steps, sides = final.get(MICRO_STEPS), final.get("parallel.mesh")
    if not isinstance(sides, dict) or not _numbers(*numbers, *sides.values()):
        return None
    of_ranks, rest = divmod(wanted, Mesh.of(sides, nodes * devices, where).data_ranks)
    divisors = [size for size in range(1, of_ranks + 1) if of_ranks % size == 0 and not rest]
    return tuple(size for size in divisors if micro_steps in (AUTO, of_ranks // size))


def with_own_size(final: Layer, case: Layer, sizes: Sequence[int] | None) -> Layer:
    """The configuration with the case's size in place of `auto`, or the one of `sizes` that is nearest below."""
    own = case.get(KEY)
    return final.with_values({KEY: max((size for size in sizes or () if size <= own), default=min(sizes or (own,)))})


def with_micro_steps(final: Layer, where: Where) -> Layer:
    """The configuration with the micro steps that its global batch asks for, in place of `auto`.

    Raises:
        ConfigError: no whole number of them gives the global batch.
    """
    sides = final.get("parallel.mesh")
    wanted, batch, nodes, devices = numbers = [final.get(key) for key in (GLOBAL, KEY, "nnodes", "nproc")]
    if final.leaves.get(MICRO_STEPS) != AUTO or wanted is None:
        return final
    if not isinstance(sides, dict) or not _numbers(*numbers, *sides.values()):
        return final.with_values({MICRO_STEPS: 1})  # what is no number is refused, each by its own rule
    ranks = Mesh.of(sides, nodes * devices, where).data_ranks
    if wanted % (batch * ranks):
        raise ConfigError(
            "no number of micro steps gives the samples that a step must have",
            where=where(GLOBAL),
            key=GLOBAL,
            given=wanted,
            allowed=f"a multiple of train_batch_size x data ranks: {batch} x {ranks} = {batch * ranks}",
            advice="change train_batch_size, the number of ranks, or the mesh of parallel",
        )
    return final.with_values({MICRO_STEPS: wanted // (batch * ranks)})


def _numbers(*values: object) -> bool:
    """Whether all values are non-zero integers. Other checks refuse other values."""
    return all(isinstance(value, int) and value for value in values)


def note(final: Layer) -> str:
    """What a run will do, and a dry run has not done."""
    return f"train_batch_size=auto: a run first looks for the largest that fits; until then it is {final.get(KEY)}"


def with_size(overrides: JobOverrides, compose: Callable[[JobOverrides], JobConfig], size: int) -> JobConfig:
    """The job with a size that was found, composed anew: other values may follow from it. Changes say so."""
    job = compose(replace(overrides, values={**overrides.values, KEY: size}))
    changes = tuple(replace(change, source=FOUND) if change.key == KEY else change for change in job.changes)
    return replace(job, changes=changes)
