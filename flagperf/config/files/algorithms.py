"""Applies the algorithms that a vendor chooses for its devices: over the case, below all tunings and overrides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from flagperf.config.files.layers import Layers
from flagperf.config.files.search_path import find
from flagperf.config.schema.job_overrides import JobOverrides
from flagperf.config.schema.keys import KEYS, is_under
from flagperf.config.schema.platform import Algorithms
from flagperf.contract.build import Where, values_of_fields


def with_algorithms(layers: Layers, overrides: JobOverrides, folders: Sequence[Path], where: Where) -> Layers:
    """The layers with `vendor.algorithms`.

    A vendor's choice is part of the case on its devices, so it is no change against the case. Only the keys of
    `Algorithms` are allowed.

    Raises:
        ConfigError: a value is neither true nor false.
    """
    vendor_values = {key: value for key, value in overrides.values.items() if is_under(key, ["vendor"])}
    algorithms: Any = layers.final.with_values(vendor_values).get("vendor.algorithms")
    if not algorithms:
        return layers
    values = values_of_fields(Algorithms, algorithms) if isinstance(algorithms, dict) else {}
    chosen = {key: value for key, value in values.items() if value is not None}
    for key, value in chosen.items():
        KEYS[key].check(f"vendor.algorithms.{key}", value, where)
    sources = {key: _source_of(key, layers, folders, where) for key in chosen}
    unset = {key: value for key, value in chosen.items() if sources[key] is None}
    return replace(
        layers,
        case=layers.case.with_values(chosen),
        final=layers.final.with_values(unset),
        by_tuning=(*layers.by_tuning, *(key for key in sources if sources[key] == "vendor")),
        by_experiment=(*layers.by_experiment, *(key for key in sources if sources[key] == "experiment")),
    )


def _source_of(key: str, layers: Layers, folders: Sequence[Path], where: Where) -> str | None:
    """ "vendor" for a tuning, or "experiment", where its file has the key, even with the case's value; else None."""
    if key in layers.by_experiment or key in layers.by_tuning:
        return "experiment" if key in layers.by_experiment else "vendor"
    over = takewhile(lambda name: name.startswith(("experiment/", "vendor/")), layers.files)
    return next((name.split("/")[0] for name in over if find(name, folders) == Path(where(key))), None)
