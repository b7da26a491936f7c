"""Checks the files in --config-dir folders where Hydra does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.search_path import CONF, find, is_shipped
from flagperf.errors import ConfigError

FILES = "configuration files"  # the `where` of an error without a known file
GLOBAL = "# @package _global_"
ROOTED = ("model", "dataset", "size", "experiment")  # groups whose files write their keys from the root


def check_user_files(names: Iterable[str], folders: Sequence[Path]) -> None:
    """Refuse a file that cannot be read, has a wrong package line, or sets keys of another group.

    Args:
        names: files of a composition, such as "vendor/nvidia".
    """
    for name in names:
        path = find(name, folders)
        if path is None or is_shipped(path):
            continue
        keys, rooted = _read(path)
        group = name.split("/")[0]
        may_root = group in ROOTED or (group == "vendor" and name.count("/") > 1)  # the latter is a tuning
        if not rooted and (may_root or group in keys or "@package" in path.read_text(encoding="utf-8")):
            raise ConfigError(f"the first line must be: {GLOBAL}", where=str(path))
        for key in keys if rooted and not may_root else ():
            if key not in (group, "defaults"):
                raise ConfigError(f"a {group} file may set {group} only", where=str(path), key=key, allowed=group)


def own_files(names: Iterable[str], folders: Sequence[Path]) -> dict[str, str]:
    """The user's own files of a composition: name, such as "vendor/nvidia" → path.

    Experiments are left out: all their effects are changes against the case.
    """
    paths = {name: path for name in names if (path := find(name, folders)) and not is_shipped(path)}
    return {
        name: f"{path}, in place of the shipped file" if (CONF / f"{name}.yaml").exists() else str(path)
        for name, path in paths.items()
        if not name.startswith("experiment/")
    }


def sweep_of(experiment: str, folders: Sequence[Path]) -> dict[str, str]:
    """The sweep of an experiment (`hydra.sweeper.params`): key → values in the form of overrides."""
    check_user_files([f"experiment/{experiment}"], folders)
    path = find(f"experiment/{experiment}", folders)
    part: Any = read_yaml(path) if path else None
    for name in ("hydra", "sweeper", "params"):
        part = part.get(name) if isinstance(part, dict) else None
    if not isinstance(part or {}, dict):
        raise ConfigError("not a mapping of keys to values", where=str(path), key="hydra.sweeper.params", given=part)
    return {str(key): str(value) for key, value in (part or {}).items()}


def _read(path: Path) -> tuple[list[str], bool]:
    """The top-level keys of a file, and whether they go to the root of the configuration.

    Hydra reads the package line only before all other lines.
    """
    try:
        tree = read_yaml(path) or {}
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8 text", where=str(path), given=str(error)) from None
    except yaml.YAMLError as error:
        raise not_yaml(error) from None
    if not (isinstance(tree, dict) and all(isinstance(key, str) for key in tree)):
        raise ConfigError("not a mapping of keys to values", where=str(path))
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    return list(tree), re.match(r"\s*#\s*@package\s+_global_\s*$", first_line) is not None


def not_yaml(error: yaml.YAMLError) -> ConfigError:
    """The error with the file, and with the line if the parser knows it."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        return ConfigError(f"not valid YAML: {error.problem}", where=f"{mark.name}:{mark.line + 1}")
    return ConfigError(f"not valid YAML: {getattr(error, 'reason', error)}", where=getattr(error, "name", FILES))
