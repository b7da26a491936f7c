"""The algorithms that a vendor chooses for its devices: over the case, below tuning, experiment and command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from flagperf.config.files.layers import Layers
from flagperf.config.files.search_path import find
from flagperf.config.files.sweep import JobOverrides
from flagperf.config.schema.keys import KEYS, is_under
from flagperf.config.schema.platform import Algorithms
from flagperf.contract.build import Where, of_same_name


def with_algorithms(layers: Layers, overrides: JobOverrides, folders: Sequence[Path], where: Where) -> Layers:
    """The layers with what the vendor's file says in `algorithms`.

    A vendor's choice is part of what the case is on its devices, so that it is no change that a closed run would have
    to answer for. It can be no other key than those of `Algorithms`.

    Raises:
        ConfigError: a value is neither true nor false.
    """
    own = {key: value for key, value in overrides.values.items() if is_under(key, ["vendor"])}
    given: Any = layers.final.with_values(own).get("vendor.algorithms")
    if not given:
        return layers
    known = of_same_name(Algorithms, given) if isinstance(given, dict) else {}
    chosen = {key: value for key, value in known.items() if value is not None}
    for key, value in chosen.items():
        KEYS[key].check(f"vendor.algorithms.{key}", value, where)
    stated = {key: _stated_by(key, layers, folders, where) for key in chosen}
    unsaid = {key: value for key, value in chosen.items() if stated[key] is None}
    return replace(
        layers,
        case=layers.case.with_values(chosen),
        final=layers.final.with_values(unsaid),
        by_tuning=(*layers.by_tuning, *(key for key in stated if stated[key] == "vendor")),
        by_experiment=(*layers.by_experiment, *(key for key in stated if stated[key] == "experiment")),
    )


def _stated_by(key: str, layers: Layers, folders: Sequence[Path], where: Where) -> str | None:
    """The group of the tuning ("vendor") or experiment that says something about the key, be it what the case says."""
    if key in layers.by_experiment or key in layers.by_tuning:
        return "experiment" if key in layers.by_experiment else "vendor"
    over = takewhile(lambda name: name.startswith(("experiment/", "vendor/")), layers.files)
    return next((name.split("/")[0] for name in over if find(name, folders) == Path(where(key))), None)
