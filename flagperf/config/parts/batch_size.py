"""Replaces `auto` in the keys of a batch.

`train_batch_size` is the case's size until a run has found the largest one. `gradient_accumulation_steps` follows from
the samples of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flagperf.config.files.layer import Layer
from flagperf.config.schema.job_overrides import JobOverrides
from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import Where
from flagperf.contract.mesh import Mesh
from flagperf.errors import ConfigError

KEY, AUTO = "train_batch_size", "auto"
MICRO_STEPS, GLOBAL = "gradient_accumulation_steps", "global_batch_size"
SEARCHED = "found by train_batch_size=auto"  # source of the change


def is_auto(final: Layer) -> bool:
    """Whether a run finds the batch size."""
    return bool(final.leaves.get(KEY) == AUTO)


def fitting(final: Layer, where: Where) -> tuple[int, ...] | None:
    """The sizes whose whole micro steps give the global batch, smallest first; None: the case has no global batch."""
    global_batch, nodes, devices = numbers = [final.get(key) for key in (GLOBAL, "nnodes", "nproc")]
    micro_steps, sides = final.get(MICRO_STEPS), final.get("parallel.mesh")
    if not isinstance(sides, dict) or not _numbers(*numbers, *sides.values()):
        return None
    rank_samples, remainder = divmod(global_batch, Mesh.of(sides, nodes * devices, where).data_ranks)
    divisors = [size for size in range(1, rank_samples + 1) if rank_samples % size == 0 and not remainder]
    return tuple(size for size in divisors if micro_steps in (AUTO, rank_samples // size))


def with_own_size(final: Layer, case: Layer, sizes: Sequence[int] | None) -> Layer:
    """The configuration with the case's size in place of `auto`, or with the next lower of `sizes`."""
    case_size = case.get(KEY)
    return final.with_values(
        {KEY: max((size for size in sizes or () if size <= case_size), default=min(sizes or (case_size,)))}
    )


def with_micro_steps(final: Layer, where: Where) -> Layer:
    """The configuration with the micro steps of its global batch in place of `auto`.

    Raises:
        ConfigError: no whole number of micro steps gives the global batch.
    """
    sides = final.get("parallel.mesh")
    global_batch, batch, nodes, devices = numbers = [final.get(key) for key in (GLOBAL, KEY, "nnodes", "nproc")]
    if final.leaves.get(MICRO_STEPS) != AUTO or global_batch is None:
        return final
    if not isinstance(sides, dict) or not _numbers(*numbers, *sides.values()):
        return final.with_values({MICRO_STEPS: 1})  # other rules refuse values that are no numbers
    ranks = Mesh.of(sides, nodes * devices, where).data_ranks
    if global_batch % (batch * ranks):
        raise ConfigError(
            "no number of micro steps gives the required samples of a step",
            where=where(GLOBAL),
            key=GLOBAL,
            given=global_batch,
            allowed=f"a multiple of train_batch_size x data ranks: {batch} x {ranks} = {batch * ranks}",
            advice="change train_batch_size, the number of ranks, or the mesh of parallel",
        )
    return final.with_values({MICRO_STEPS: global_batch // (batch * ranks)})


def _numbers(*values: object) -> bool:
    """Whether all values are non-zero integers. Other checks refuse other values."""
    return all(isinstance(value, int) and value for value in values)


def note(final: Layer) -> str:
    """A note about the batch size that a dry run does not find."""
    return f"train_batch_size=auto: a run first looks for the largest that fits; until then it is {final.get(KEY)}"


def with_size(overrides: JobOverrides, compose: Callable[[JobOverrides], JobConfig], size: int) -> JobConfig:
    """The job with a found size, composed again, because other values may depend on the size."""
    job = compose(replace(overrides, values={**overrides.values, KEY: size}))
    changes = tuple(replace(change, source=SEARCHED) if change.key == KEY else change for change in job.changes)
    return replace(job, changes=changes)
