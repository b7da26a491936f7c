"""`train_batch_size=auto`: composes with the case's own size until a run has found the largest that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flagperf.config.layers import Layer
from flagperf.config.sweep import Job
from flagperf.config.values import RunConfig

KEY, AUTO = "train_batch_size", "auto"
FOUND = "found by train_batch_size=auto"  # source of the change


def is_auto(final: Layer) -> bool:
    """Whether the size is to be found."""
    return bool(final.leaves.get(KEY) == AUTO)


def with_own_size(final: Layer, case: Layer) -> Layer:
    """The configuration with the case's size in place of `auto`."""
    return final.with_values({KEY: case.get(KEY)})


def note(final: Layer) -> str:
    """What a run will do, and a dry run has not done."""
    return f"train_batch_size=auto: a run first looks for the largest that fits; until then it is {final.get(KEY)}"


def with_size(job: Job, compose: Callable[[Job], RunConfig], size: int) -> RunConfig:
    """The job with a size that was found, composed anew: other values may follow from it. Changes say so."""
    run = compose(replace(job, values={**job.values, KEY: size}))
    changes = tuple(replace(change, source=FOUND) if change.key == KEY else change for change in run.changes)
    return replace(run, changes=changes)
