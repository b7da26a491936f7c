"""How the framework of a case reaches the vendor's devices, laid over what the vendor's file says for the main one."""

from __future__ import annotations

from dataclasses import fields, replace

from flagperf.config.keys import is_under
from flagperf.config.layers import Layers
from flagperf.config.platform import Reach
from flagperf.config.provenance import leaves

KEYS = tuple(field.name for field in fields(Reach))


def with_reach(layers: Layers) -> Layers:
    """The layers with `vendor.frameworks.<framework>` in the place of the vendor's own keys of the same names.

    It is what the vendor is on this framework, and no change. A tuning or an experiment that says one of the keys is
    left as it is.
    """
    said = layers.final.get(f"vendor.frameworks.{layers.final.choices['framework']}")
    if not isinstance(said, dict):
        return layers
    chosen = leaves({key: value for key, value in said.items() if key in KEYS}, "vendor.")
    later = (*layers.by_tuning, *layers.by_experiment)
    unsaid = {key: value for key, value in chosen.items() if not is_under(key, later)}
    return replace(layers, case=layers.case.with_values(chosen), final=layers.final.with_values(unsaid))
