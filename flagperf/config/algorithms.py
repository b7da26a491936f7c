"""The algorithms that a vendor chooses for its devices: over the case, below tuning, experiment and command line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from flagperf.config.build import of_same_name
from flagperf.config.keys import KEYS, is_under
from flagperf.config.layers import Layer, Layers
from flagperf.config.platform import Algorithms
from flagperf.config.provenance import Where
from flagperf.config.search_path import find
from flagperf.config.sweep import Job


def with_algorithms(layers: Layers, job: Job, folders: Sequence[Path], where: Where) -> tuple[Layer, Layer]:
    """The case on its vendor's devices, and all of the job: each with what the vendor's file says in `algorithms`.

    A vendor's choice is part of what the case is there, so that it is no change that a closed run would have to
    answer for. It can be no other key than those of `Algorithms`.

    Raises:
        ConfigError: a value is neither true nor false.
    """
    final = layers.final.with_values(job.values)
    given = final.get("vendor.algorithms")
    chosen = {
        key: value
        for key, value in of_same_name(Algorithms, given if isinstance(given, dict) else {}).items()
        if value is not None
    }
    for key, value in chosen.items():
        KEYS[key].check(f"vendor.algorithms.{key}", value, where)
    own = {key: value for key, value in chosen.items() if not _is_stated(key, layers, job, folders, where)}
    return layers.case.with_values(chosen), final.with_values(own)


def _is_stated(key: str, layers: Layers, job: Job, folders: Sequence[Path], where: Where) -> bool:
    """Whether tuning, experiment or command line says something about the key, be it what the case says too."""
    if is_under(key, job.values) or key in (*layers.by_tuning, *layers.by_experiment):
        return True
    over: list[Any] = list(takewhile(lambda name: name.startswith(("experiment/", "vendor/")), layers.files))
    return Path(where(key)) in [find(name, folders) for name in over]
