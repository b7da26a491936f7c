"""A vendor's own code in a rank (vendor.extension): modules to import, and classes that replace those of the case."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from flagperf.contract.components import component
from flagperf.contract.digest import sha256_of
from flagperf.trainer.start.imports import import_named

KEY = "vendor.extension"
REPLACED_PARTS = "_of_the_case"  # key of a rank's configuration: the parts of the case that the vendor replaced

Rename = Callable[[str], str]  # name of a parameter in the vendor's network → the case's name of it


def extension(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section about the vendor's own code, from its file or a tuning; empty where there is none."""
    return config["vendor"].get("extension") or {}


def apply_extension(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the vendor's classes in place of those of the case. They get the case's arguments."""
    changes = extension(config).get("replace") or {}
    replaced = {part: {**(config.get(part) or {}), **change} for part, change in changes.items()}
    return {**config, **replaced, REPLACED_PARTS: {part: config.get(part) for part in changes}}


def case_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration before `apply_extension`, without any code of the vendor's own."""
    return {**without_extension(config), **config.get(REPLACED_PARTS, {})}


def without_extension(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without the section about the vendor's own code."""
    return {**config, "vendor": {**config["vendor"], "extension": {}}}


def import_modules(config: Mapping[str, Any]) -> None:
    """Import the vendor's modules, before the network is made.

    Raises:
        ConfigError: a module cannot be imported.
    """
    for name in extension(config).get("modules") or ():
        import_named(name, f"{KEY}.modules", "a module of the vendor's own code")


def apply_network_hook(config: Mapping[str, Any], network: Any) -> Any:
    """The network that the vendor's hook returns for the built one; the built one where no hook returns any."""
    hook, key = extension(config).get("network_hook"), f"{KEY}.network_hook"
    made = component({key: {"_target_": hook}}, key, network) if hook else None
    return network if made is None else made


def parameter_renaming(config: Mapping[str, Any]) -> Rename:
    """The function that turns names of the vendor's network into names of the case's network."""
    names = extension(config).get("names") or {}

    def rename(name: str) -> str:
        for pattern, text in names.items():
            name = re.sub(pattern, text, name)
        return name

    return rename


def extension_targets(config: Mapping[str, Any]) -> list[str]:
    """The modules and the function that the section names beside the classes."""
    section = extension(config)
    return [*(section.get("modules") or ()), *([section["network_hook"]] if section.get("network_hook") else [])]


def local_file_hashes(config: Mapping[str, Any]) -> dict[str, str]:
    """Path → SHA-256 of the vendor's files, as this process imports them; "" for a missing file."""
    files = (config.get("extension") or {}).get("files") or {}
    folders = [Path(folder) for folder in sys.path if folder]
    paths = {name: next((folder / name for folder in folders if (folder / name).is_file()), None) for name in files}
    return {name: sha256_of(path) if path else "" for name, path in paths.items()}
