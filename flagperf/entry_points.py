"""What installed packages give flagperf by entry points: verbs, writers of reports, schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache


@cache
def named(group: str) -> Mapping[str, str]:
    """Name → module, or module:class, of a group, sorted by name. Ours count before those of another package."""
    from importlib.metadata import entry_points  # heavy, and no part of a run on listed hosts

    points = sorted(entry_points(group=group), key=lambda entry: entry.value.startswith("flagperf."))
    return {entry.name: entry.value for entry in sorted(points, key=lambda entry: entry.name)}
