"""The class that the case gave each module of its network, by the module's name.

Settings of a run replace classes: FSDP2 makes a class FSDPLayerNorm of LayerNorm, `sync_bn` and `float8_modules` put
other layers in place of the case's, and so may a vendor's hook. The recipe of the case speaks of its own classes.
"""

from __future__ import annotations

from torch import nn

ATTRIBUTE = "_case_classes"  # of the network; copies and parts of it have it, too


def note_classes(network: nn.Module) -> nn.Module:
    """Note the classes of a network as its constructor made it. Returns the network."""
    classes = {name: type(module).__name__ for name, module in network.named_modules()}
    setattr(network, ATTRIBUTE, classes)
    return network


def class_name(network: nn.Module, module: str) -> str:
    """The name of a module's class in the case's network: the one that was noted, or what the module is now.

    Args:
        module: its name in the network.
    """
    noted: dict[str, str] = getattr(network, ATTRIBUTE, {})
    return noted.get(module) or type(network.get_submodule(module)).__name__
