"""A vendor's own code in a rank (vendor.extension): what it imports, and what it has in the place of a case's parts."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from flagperf.contract.components import component
from flagperf.contract.digest import sha256_of
from flagperf.errors import ConfigError

KEY = "vendor.extension"
CASES_OWN = "_of_the_case"  # key of a rank's configuration: parts that the vendor's took the place of

Rename = Callable[[str], str]  # name of a parameter in the vendor's network → the case's name of it


def extension(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the vendor's file, or a tuning, says of its own code; empty where it says nothing."""
    return config["vendor"].get("extension") or {}


def extended(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the vendor's classes in the place of the case's, which get the case's arguments."""
    own = extension(config).get("replace") or {}
    replaced = {part: {**(config.get(part) or {}), **said} for part, said in own.items()}
    return {**config, **replaced, CASES_OWN: {part: config.get(part) for part in own}}


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that `extended` made as it was before, and without what the vendor has of its own."""
    return {**without_extension(config), **config.get(CASES_OWN, {})}


def without_extension(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as the case has it."""
    return {**config, "vendor": {**config["vendor"], "extension": {}}}


def import_modules(config: Mapping[str, Any]) -> None:
    """Import what the vendor wants before the network is made.

    Raises:
        ConfigError: a module cannot be imported.
    """
    for name in extension(config).get("modules") or ():
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigError(
                "a module of the vendor's own code cannot be imported",
                where="config.yaml",
                key=f"{KEY}.modules",
                given=name,
                advice=str(error),
            ) from error


def hooked(config: Mapping[str, Any], network: Any) -> Any:
    """The network that the vendor's hook makes of the built one; the same where there is no hook, or it gives none."""
    hook, key = extension(config).get("network_hook"), f"{KEY}.network_hook"
    made = component({key: {"_target_": hook}}, key, network) if hook else None
    return network if made is None else made


def renaming(config: Mapping[str, Any]) -> Rename:
    """How names of the vendor's network become those of the case."""
    names = extension(config).get("names") or {}

    def rename(name: str) -> str:
        for pattern, text in names.items():
            name = re.sub(pattern, text, name)
        return name

    return rename


def named(config: Mapping[str, Any]) -> list[str]:
    """The modules and functions that are named beside the classes."""
    own = extension(config)
    return [*(own.get("modules") or ()), *([own["network_hook"]] if own.get("network_hook") else [])]


def files_here(config: Mapping[str, Any]) -> dict[str, str]:
    """Path → SHA-256 of the vendor's files as this process finds them; "" for one that is not there."""
    files = (config.get("extension") or {}).get("files") or {}
    folders = [Path(folder) for folder in sys.path if folder]
    found = {name: next((folder / name for folder in folders if (folder / name).is_file()), None) for name in files}
    return {name: sha256_of(path) if path else "" for name, path in found.items()}
