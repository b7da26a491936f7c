"""Imports at the start of a rank: they take most of the time to its first step."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flagperf.contract.components import import_maker, targets
from flagperf.errors import ConfigError


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """A block of imports, whose objects the garbage collector never looks at, now or later: they all stay.

    A framework and its libraries are several hundred thousand objects. The collector would go through them again and
    again while they are made.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def import_components(config: Mapping[str, Any]) -> None:
    """Import the vendor's plug-in, which may change the framework; then the modules of what the case is made of.

    A module that cannot be imported is passed over here. Whoever needs it later says for which key.
    """
    import_maker()
    if config["vendor"]["plugin"]:
        with contextlib.suppress(Exception):
            importlib.import_module(config["vendor"]["plugin"])
    for target in targets([config.get(key) for key in config["framework"]["parts"]]):
        module, _, name = target.rpartition(".")
        with contextlib.suppress(Exception):
            getattr(importlib.import_module(module), name)  # some libraries import only then what is asked for


def import_plugin(name: str) -> None:
    """Import the module that adds a vendor's device to the framework.

    Raises:
        ConfigError: it cannot be imported.
    """
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            "the vendor's plug-in module cannot be imported",
            where="config.yaml",
            key="vendor.plugin",
            given=name,
            advice=str(error),
        ) from error


@contextlib.contextmanager
def imported_anew(modules: Sequence[str]) -> Iterator[None]:
    """A block in which these modules are other ones, read from their files; all others stay as they are."""
    kept = {name: sys.modules.pop(name) for name in modules if name in sys.modules}
    try:
        for name in dict.fromkeys(modules):
            importlib.import_module(name)
        yield
    finally:
        sys.modules.update(kept)
        for name, module in kept.items():
            parent, _, own = name.rpartition(".")
            setattr(sys.modules[parent], own, module)
