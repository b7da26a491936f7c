"""What a case states of its network and recipe: fingerprint/<case>.yaml, written by `python -m cases.fingerprint`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.search_path import find
from flagperf.config.files.user_files import not_yaml
from flagperf.errors import ConfigError

PARTS = {"network", "forward", "optimizer", "schedule"}


def stated_fingerprint(case: str, size: str, folders: Sequence[Path]) -> dict[str, Any] | None:
    """What the case states of this size; None where it states nothing."""
    path = find(f"fingerprint/{case}", folders)
    if path is None:
        return None
    try:
        sizes = read_yaml(path)
    except yaml.YAMLError as error:
        raise not_yaml(error) from None
    found = sizes.get(size) if isinstance(sizes, dict) else sizes
    if found is not None and not (isinstance(found, dict) and set(found) == PARTS):
        raise ConfigError(
            "this is no fingerprint",
            where=str(path),
            key=size,
            allowed=f"a mapping with {', '.join(sorted(PARTS))}",
            advice=f"python -m cases.fingerprint {case} writes the file",
        )
    return found
