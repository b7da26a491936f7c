"""Which modules of a network are divided as one: its blocks, told by their class or their place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch import nn

from flagperf.errors import ConfigError


def named(network: nn.Module, pattern: str) -> dict[str, nn.Module]:
    """The modules at the places of a pattern such as model.layers.*, by name; * stands for one part between dots."""
    form = re.compile(r"[^.]+".join(map(re.escape, pattern.split("*"))))
    return {name: module for name, module in network.named_modules() if form.fullmatch(name)}


def find_blocks(network: nn.Module, given: Sequence[str]) -> list[nn.Module]:
    """The blocks of a network, inner ones before those that hold them.

    Args:
        given: names of classes, such as LlamaDecoderLayer, or patterns of places, such as model.layers.*.

    Raises:
        ConfigError: one of them names no module.
    """
    chosen: set[nn.Module] = set()
    for text in given:
        found = [module for module in network.modules() if type(module).__name__ == text]
        found = found or [module for name, module in named(network, text).items() if name]
        if not found:
            classes = ", ".join(sorted({type(module).__name__ for module in network.modules()}))
            raise ConfigError(
                "the network has no such blocks",
                where="config.yaml",
                key="parallel.blocks",
                given=text,
                allowed=f"a pattern of places such as model.layers.*, or a class of {classes}",
            )
        chosen.update(found)
    return [module for module in reversed(list(network.modules())) if module in chosen]
