"""What a job changes of its case, what made each change, and which changes a closed run need not answer for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from flagperf.config.files.layer import Layer
from flagperf.config.files.layers import Layers
from flagperf.config.files.provenance import changes
from flagperf.config.files.search_path import find, is_shipped
from flagperf.config.files.sweep import JobOverrides
from flagperf.config.schema.keys import is_under
from flagperf.contract.build import Where
from flagperf.contract.records import Change

PRODUCT = ("hardware.device_names", "hardware.vendor", "hardware.peak_flops")  # what a product's name stands for


def changes_of(
    final: Layer, layers: Layers, overrides: JobOverrides, folders: Sequence[Path], where: Where
) -> tuple[Change, ...]:
    """What differs from the case, each with what changed it.

    Args:
        final: the layers with the values of the command line over them.
    """
    return changes(layers.case.leaves, final.leaves, _source(overrides, layers, folders, where))


def described(overrides: JobOverrides, layers: Layers) -> set[str]:
    """Keys of a shipped vendor or product that the user's own file says otherwise, and nothing after it.

    By what flagperf states of a product readers know it: that stays.
    """
    later = {*layers.by_tuning, *layers.by_experiment}
    stated = {key for key in layers.by_files if is_under(key, PRODUCT) and layers.case.leaves.get(key)}
    return {
        key
        for key in layers.by_files
        if is_under(key, ("vendor", "hardware"))
        and key not in {*later, *stated}
        and not is_under(key, overrides.values)
    }


def _source(overrides: JobOverrides, layers: Layers, folders: Sequence[Path], where: Where) -> Callable[[str], str]:
    """A function from a changed key to what changed it, as text. A tuning may lie over the one for the hardware."""
    tunings = {str(find(name, folders)): name for name in layers.files if re.match("vendor/.*/", name)}

    def source(key: str) -> str:
        if is_under(key, overrides.values):
            of_suite = next((name for said, name in overrides.suites.items() if is_under(key, (said,))), None)
            return f"experiment {of_suite}" if of_suite else "command line"
        if key in layers.by_experiment:
            return f"experiment {', '.join(overrides.experiments)}"
        if key in layers.by_tuning:
            return f"tuning {tunings.get(where(key), layers.tuning or '').removeprefix('vendor/')}"
        file = where(key)
        return "a file of --config-dir" if is_shipped(Path(file)) else file

    return source
