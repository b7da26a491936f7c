"""The case and product that a page is about, composed from overrides as a run is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.compose import compose
from flagperf.config.files.search_path import find, options, search_path
from flagperf.config.schema.platform import Hardware
from flagperf.config.schema.values import JobConfig
from flagperf.contract.build import build


def chosen(overrides: Sequence[str], config_dirs: Sequence[Path] = (), *, any_product: bool = False) -> JobConfig:
    """Compose a job that will not run. Raises ConfigError.

    Args:
        any_product: take any of the vendor's where none is named; else only one that is its only one.
    """
    words = [*overrides, "dry_run=true"]
    given = dict(word.split("=", 1) for word in words)
    found = products(given.get("vendor", ""), search_path(config_dirs)) if "hardware" not in given else []
    return compose(
        [*words, f"hardware={found[0].name}"] if len(found) == 1 or (found and any_product) else words, config_dirs
    )


def products(vendor: str, folders: Sequence[Path]) -> list[Hardware]:
    """A vendor's products, sorted by name. Raises ConfigError where the file of one is wrong."""
    files = {name: find(f"hardware/{name}", folders) for name in options("hardware", folders)}
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items() if path}
    told = {name: yaml.safe_load(text) for name, text in texts.items() if vendor in text}
    return [_product(name, values) for name, values in told.items() if values.get("vendor") == vendor]


def _product(name: str, values: Mapping[str, Any]) -> Hardware:
    return build(Hardware, {**values, "name": name}, "hardware", lambda _: f"hardware/{name}.yaml")
