"""Imports at the start of a rank: they take most of the time to its first step."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flagperf.contract.components import preload_hydra, targets
from flagperf.errors import ConfigError


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """A block of imports whose objects the garbage collector never visits, now or later.

    A framework and its libraries are several hundred thousand objects. The collector would visit them again and again
    during the imports.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def import_components(config: Mapping[str, Any]) -> None:
    """Import the vendor's plug-in, which may change the framework; then the modules of the case's parts.

    A module that cannot be imported is skipped here. The code that needs it later names the key.
    """
    preload_hydra()
    if config["vendor"]["plugin"]:
        with contextlib.suppress(Exception):
            importlib.import_module(config["vendor"]["plugin"])
    for target in targets([config.get(key) for key in config["framework"]["parts"]]):
        module, _, name = target.rpartition(".")
        with contextlib.suppress(Exception):
            getattr(importlib.import_module(module), name)  # some libraries import a name only when it is read


def import_plugin(name: str) -> None:
    """Import the module that adds a vendor's device to the framework.

    Raises:
        ConfigError: the module cannot be imported.
    """
    import_named(name, "vendor.plugin", "the vendor's plug-in module")


def import_named(name: str, key: str, title: str) -> None:
    """Import a module that a key of the configuration names.

    Raises:
        ConfigError: the module, whose title is given, cannot be imported.
    """
    try:
        importlib.import_module(name)
    except ImportError as error:
        problem = f"{title} cannot be imported"
        raise ConfigError(problem, where="config.yaml", key=key, given=name, advice=str(error)) from error


@contextlib.contextmanager
def imported_anew(modules: Sequence[str]) -> Iterator[None]:
    """A block in which these modules are imported again from their files. Afterwards the old modules are back."""
    originals = {name: sys.modules.pop(name) for name in modules if name in sys.modules}
    try:
        for name in dict.fromkeys(modules):
            importlib.import_module(name)
        yield
    finally:
        sys.modules.update(originals)
        for name, module in originals.items():
            parent, _, attribute = name.rpartition(".")
            setattr(sys.modules[parent], attribute, module)
