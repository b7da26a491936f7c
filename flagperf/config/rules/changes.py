"""Finds the changes of a job against its case, their sources, and those that are allowed in a closed run anyway."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from flagperf.config.files.layer import Layer
from flagperf.config.files.layers import Layers
from flagperf.config.files.provenance import changes, experiment_of
from flagperf.config.files.search_path import find, is_shipped
from flagperf.config.schema.job_overrides import JobOverrides
from flagperf.config.schema.keys import is_under
from flagperf.contract.build import Where
from flagperf.contract.records import Change

# Keys that identify a product.
PRODUCT = ("hardware.device_names", "hardware.vendor", "hardware.peak_flops", "hardware.memory_bandwidth")


def changes_of(
    final: Layer, layers: Layers, overrides: JobOverrides, folders: Sequence[Path], where: Where
) -> tuple[Change, ...]:
    """All changes against the case, with their sources.

    Args:
        final: the layers with the values of the command line.
    """
    return changes(layers.case.leaves, final.leaves, _source(overrides, layers, folders, where))


def described(overrides: JobOverrides, layers: Layers) -> set[str]:
    """Keys of a shipped vendor or product that only the user's own file changed.

    The keys that identify a product for readers are left out.
    """
    later = {*layers.by_tuning, *layers.by_experiment}
    identifying = {key for key in layers.by_files if is_under(key, PRODUCT) and layers.case.leaves.get(key)}
    return {
        key
        for key in layers.by_files
        if is_under(key, ("vendor", "hardware"))
        and key not in {*later, *identifying}
        and not is_under(key, overrides.values)
    }


def _source(overrides: JobOverrides, layers: Layers, folders: Sequence[Path], where: Where) -> Callable[[str], str]:
    """A function from a changed key to its source, as text. A tuning may include the tuning for the hardware."""
    tunings = {str(find(name, folders)): name for name in layers.files if re.match("vendor/.*/", name)}

    def source(key: str) -> str:
        if is_under(key, overrides.values):
            of_experiment = experiment_of(key, overrides.experiment_of)
            return f"experiment {of_experiment}" if of_experiment else "command line"
        if key in layers.by_experiment:
            return f"experiment {', '.join(overrides.experiments)}"
        if key in layers.by_tuning:
            return f"tuning {tunings.get(where(key), layers.tuning or '').removeprefix('vendor/')}"
        file = where(key)
        return "a file of --config-dir" if is_shipped(Path(file)) else file

    return source
