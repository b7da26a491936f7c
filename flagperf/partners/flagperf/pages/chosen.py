"""The case and product of a page, composed from overrides as for a run."""

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
    """Compose a job for a page. Raises ConfigError where an override is wrong.

    Args:
        any_product: without hardware= take the vendor's first product; otherwise only a vendor's single product.
    """
    words = [*overrides, "dry_run=true"]
    values = dict(word.split("=", 1) for word in words)
    candidates = products(values.get("vendor", ""), search_path(config_dirs)) if "hardware" not in values else []
    return compose(
        [*words, f"hardware={candidates[0].name}"] if len(candidates) == 1 or (candidates and any_product) else words,
        config_dirs,
    )


def products(vendor: str, folders: Sequence[Path]) -> list[Hardware]:
    """A vendor's products, sorted by name. Raises ConfigError where the file of a product is wrong."""
    files = {name: find(f"hardware/{name}", folders) for name in options("hardware", folders)}
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items() if path}
    contents = {name: yaml.safe_load(text) for name, text in texts.items() if vendor in text}
    return [_product(name, values) for name, values in contents.items() if values.get("vendor") == vendor]


def _product(name: str, values: Mapping[str, Any]) -> Hardware:
    return build(Hardware, {**values, "name": name}, "hardware", lambda _: f"hardware/{name}.yaml")
