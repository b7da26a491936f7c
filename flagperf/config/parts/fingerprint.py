"""Reads the stated network and recipe of a case: fingerprint/<case>.yaml, written by `python -m cases.fingerprint`."""

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
    """The stated fingerprint of a case and size; None: not stated."""
    path = find(f"fingerprint/{case}", folders)
    if path is None:
        return None
    try:
        sizes = read_yaml(path)
    except yaml.YAMLError as error:
        raise not_yaml(error) from None
    fingerprint = sizes.get(size) if isinstance(sizes, dict) else sizes
    if fingerprint is not None and not (isinstance(fingerprint, dict) and set(fingerprint) == PARTS):
        raise ConfigError(
            "this is no fingerprint",
            where=str(path),
            key=size,
            allowed=f"a mapping with {', '.join(sorted(PARTS))}",
            advice=f"python -m cases.fingerprint {case} writes the file",
        )
    return fingerprint
