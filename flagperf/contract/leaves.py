"""A nested mapping as dotted keys, and which of them differ between two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Dict

Leaves = Dict[str, Any]  # dotted key → value, unresolved; a list is one value

ABSENT = object()


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
        leaf = side.get(key, ABSENT)
        return isinstance(leaf, bool), leaf

    return [key for key in {**before, **after} if value(before, key) != value(after, key)]
