"""Container options of several sources, as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from flagperf.config.values import ContainerOptions


def merged(*layers: ContainerOptions) -> ContainerOptions:
    """Options of several sources: lists and mappings grow, of other values the last one given counts."""
    result = ContainerOptions()
    for layer in layers:
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(layer):
            before, value = getattr(result, field.name), getattr(layer, field.name)
            if isinstance(value, Mapping):
                changes[field.name] = {**before, **value}
            elif isinstance(value, tuple):
                changes[field.name] = before + tuple(item for item in value if item not in before)
            elif value is not None:
                changes[field.name] = value
        result = dataclasses.replace(result, **changes)
    return result
