"""Checks of the files in --config-dir folders that Hydra itself does not make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from flagperf.errors import ConfigError
from flagperf.places import find, is_shipped

GLOBAL = "# @package _global_"
ROOTED = ("model", "dataset", "size", "experiment")  # groups whose files write their keys from the root


def check_user_files(names: Iterable[str], folders: Sequence[Path]) -> None:
    """Refuse a file whose keys do not go where its author thinks, or that sets more than its group may.

    Args:
        names: the files of a composition, such as "vendor/nvidia".
    """
    for name in names:
        path = find(name, folders)
        if path is None or is_shipped(path):
            continue
        text = path.read_text(encoding="utf-8")
        group = name.split("/")[0]
        is_tuning = name.count("/") > 1 and group == "vendor"
        rooted = _is_rooted(text)
        if not rooted and (group in ROOTED or is_tuning or "@package" in text):
            raise ConfigError(f"the first line must be: {GLOBAL}", where=str(path))
        if rooted and group not in ROOTED and not is_tuning:
            _check_keys(group, text, path)


def _is_rooted(text: str) -> bool:
    """As Hydra sees it: the package line counts only ahead of all other lines."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return re.match(r"\s*#\s*@package\s+_global_\s*$", first) is not None


def _check_keys(group: str, text: str, path: Path) -> None:
    for key in yaml.safe_load(text) or {}:
        if key not in (group, "defaults"):
            raise ConfigError(f"a {group} file may set {group} only", where=str(path), key=key, allowed=group)
