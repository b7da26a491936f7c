"""The writers of reports that a configuration names in place of their classes: entry points of `flagperf.reports`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flagperf.contract.build import Where
from flagperf.entry_points import named
from flagperf.errors import ConfigError, meant

GROUP = "flagperf.reports"


def with_classes(entries: Sequence[Any], where: Where) -> list[Any]:
    """The entries of `reports`, with the class of each writer that is given by its name.

    Raises:
        ConfigError: no installed package has a writer of this name.
    """
    if not any(isinstance(entry, str) for entry in entries):
        return list(entries)
    classes = {name: value.replace(":", ".") for name, value in named(GROUP).items()}
    for entry in entries:
        if isinstance(entry, str) and entry not in classes:
            known = (
                meant(entry, classes) or f"one of {', '.join(sorted(classes))}; or the class of a writer as _target_"
            )
            problem = "no writer of reports has this name"
            raise ConfigError(problem, where=where("reports"), key="reports", given=entry, allowed=known)
    return [{"_target_": classes[entry]} if isinstance(entry, str) else entry for entry in entries]
