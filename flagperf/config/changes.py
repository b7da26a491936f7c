"""What differs from the case, and where it was set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flagperf.config.keys import is_platform
from flagperf.config.values import Change

ABSENT = object()

Leaves = dict[str, Any]  # dotted key → value, unresolved; a list is one value


def leaves(tree: Mapping[Any, Any], prefix: str = "") -> Leaves:
    """Flatten a nested mapping; an empty one leaves nothing."""
    flat: Leaves = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(leaves(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def differing(before: Leaves, after: Leaves) -> list[str]:
    """Keys whose values differ, or that only one side has; 1 and 1.0 are the same, 1 and true are not."""

    def value(side: Leaves, key: str) -> tuple[bool, Any]:
        found = side.get(key, ABSENT)
        return isinstance(found, bool), found

    return [key for key in {**before, **after} if value(before, key) != value(after, key)]


def changes(case: Leaves, final: Leaves, source: Callable[[str], str]) -> tuple[Change, ...]:
    """Every value of the case that a tuning, an experiment or the command line changed."""
    return tuple(
        Change(key, case.get(key), final.get(key), source(key))
        for key in differing(case, final)
        if not is_platform(key)
    )
