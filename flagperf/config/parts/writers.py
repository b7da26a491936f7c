"""Replaces names of report writers by their classes: entry points of `flagperf.reports`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flagperf.contract.build import Where
from flagperf.entry_points import named
from flagperf.errors import ConfigError, meant

GROUP = "flagperf.reports"


def with_classes(entries: Sequence[Any], where: Where) -> list[Any]:
    """The entries of `reports`, with the class in place of each name.

    Raises:
        ConfigError: no installed package has a writer with this name.
    """
    if not any(isinstance(entry, str) for entry in entries):
        return list(entries)
    classes = {name: value.replace(":", ".") for name, value in named(GROUP).items()}
    for entry in entries:
        if isinstance(entry, str) and entry not in classes:
            allowed = (
                meant(entry, classes) or f"one of {', '.join(sorted(classes))}; or the class of a writer as _target_"
            )
            problem = "no writer of reports has this name"
            raise ConfigError(problem, where=where("reports"), key="reports", given=entry, allowed=allowed)
    return [{"_target_": classes[entry]} if isinstance(entry, str) else entry for entry in entries]
