"""What is `auto` of a batch: `train_batch_size`, with the case's own size until a run has found the largest that fits;
and `gradient_accumulation_steps`, as many as the samples of a step ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flagperf.config.layers import Layer
from flagperf.config.provenance import Where
from flagperf.config.sweep import Job
from flagperf.config.values import RunConfig
from flagperf.errors import ConfigError
from flagperf.trainer.mesh import Mesh

KEY, AUTO = "train_batch_size", "auto"
MICRO_STEPS, GLOBAL = "gradient_accumulation_steps", "global_batch_size"
FOUND = "found by train_batch_size=auto"  # source of the change


def is_auto(final: Layer) -> bool:
    """Whether the size is to be found."""
    return bool(final.leaves.get(KEY) == AUTO)


def with_own_size(final: Layer, case: Layer) -> Layer:
    """The configuration with the case's size in place of `auto`."""
    return final.with_values({KEY: case.get(KEY)})


def with_micro_steps(final: Layer, where: Where) -> Layer:
    """The configuration with the micro steps that its global batch asks for, in place of `auto`.

    Raises:
        ConfigError: no whole number of them gives the global batch.
    """
    sides, numbers = final.get("parallel.mesh"), [final.get(key) for key in (GLOBAL, KEY, "nnodes", "nproc")]
    if final.leaves.get(MICRO_STEPS) != AUTO or numbers[0] is None:
        return final
    if not all(isinstance(number, int) and number for number in (*numbers, *sides.values())):
        return final.with_values({MICRO_STEPS: 1})  # what is no number is refused, each by its own rule
    wanted, batch, nodes, devices = numbers
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


def note(final: Layer) -> str:
    """What a run will do, and a dry run has not done."""
    return f"train_batch_size=auto: a run first looks for the largest that fits; until then it is {final.get(KEY)}"


def with_size(job: Job, compose: Callable[[Job], RunConfig], size: int) -> RunConfig:
    """The job with a size that was found, composed anew: other values may follow from it. Changes say so."""
    run = compose(replace(job, values={**job.values, KEY: size}))
    changes = tuple(replace(change, source=FOUND) if change.key == KEY else change for change in run.changes)
    return replace(run, changes=changes)
