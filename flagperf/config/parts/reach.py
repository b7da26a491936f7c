"""How the vendor's devices are reached, where the product or the framework of a case needs another way than usual."""

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
    """The layers with `vendor.stacks` of the product, then `vendor.frameworks` of the framework, in their places.

    They take the place of the vendor's own keys of the same names. It is what the vendor is there, and no change. A
    tuning or an experiment that says one of the keys is left as it is.

    Raises:
        ConfigError: the product names a stack that the vendor does not have.
    """
    if stack := layers.final.get("hardware.stack"):
        stacks = layers.final.get("vendor.stacks") or {}
        if stack not in stacks:
            problem, key = "the vendor has no such stack", "hardware.stack"
            raise ConfigError(problem, where=where(key), key=key, given=stack, allowed=nearest(stack, stacks))
        layers = _laid_over(layers, stacks[stack])
    said = layers.final.get(f"vendor.frameworks.{layers.final.choices['framework']}")
    return _laid_over(layers, {key: value for key, value in said.items() if key in KEYS} if said else {})


def _laid_over(layers: Layers, said: Any) -> Layers:
    """The layers with some of the vendor's keys said otherwise."""
    if not isinstance(said, dict):
        return layers
    chosen = leaves(said, "vendor.")
    later = (*layers.by_tuning, *layers.by_experiment)
    unsaid = {key: value for key, value in chosen.items() if not is_under(key, later)}
    return replace(layers, case=layers.case.with_values(chosen), final=layers.final.with_values(unsaid))
