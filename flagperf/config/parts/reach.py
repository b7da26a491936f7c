"""Applies the vendor's alternative keys for a product's stack and for a framework."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from flagperf.config.files.layers import Layers
from flagperf.config.schema.keys import is_under
from flagperf.config.schema.platform import Reach
from flagperf.contract.build import Where
from flagperf.contract.leaves import leaves
from flagperf.errors import ConfigError, nearest

KEYS = tuple(field.name for field in fields(Reach))


def with_reach(layers: Layers, where: Where) -> Layers:
    """The layers with the `vendor.stacks` of the product, then the `vendor.frameworks` of the framework.

    They replace the vendor's keys of the same names. This is no change against the case. Keys of a tuning or an
    experiment stay as they are.

    Raises:
        ConfigError: the vendor has no such stack.
    """
    if stack := layers.final.get("hardware.stack"):
        stacks = layers.final.get("vendor.stacks") or {}
        if stack not in stacks:
            problem, key = "the vendor has no such stack", "hardware.stack"
            raise ConfigError(problem, where=where(key), key=key, given=stack, allowed=nearest(stack, stacks))
        layers = _with_vendor_keys(layers, stacks[stack])
    keys = layers.final.get(f"vendor.frameworks.{layers.final.choices['framework']}")
    return _with_vendor_keys(layers, {key: value for key, value in keys.items() if key in KEYS} if keys else {})


def _with_vendor_keys(layers: Layers, vendor_keys: Any) -> Layers:
    """The layers with other values of the vendor's keys."""
    if not isinstance(vendor_keys, dict):
        return layers
    chosen = leaves(vendor_keys, "vendor.")
    later = (*layers.by_tuning, *layers.by_experiment)
    unset = {key: value for key, value in chosen.items() if not is_under(key, later)}
    return replace(layers, case=layers.case.with_values(chosen), final=layers.final.with_values(unset))
