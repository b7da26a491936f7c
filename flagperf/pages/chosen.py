"""The case and product that a page is about, composed from overrides as a run is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from flagperf.config.compose import compose
from flagperf.config.search_path import find, options, search_path
from flagperf.config.values import RunConfig


def chosen(overrides: Sequence[str], config_dirs: Sequence[Path] = ()) -> RunConfig:
    """Compose a job that will not run. The only product of a vendor needs not be named. Raises ConfigError."""
    words = [*overrides, "dry_run=true"]
    given = dict(word.split("=", 1) for word in words)
    if "hardware" not in given and len(found := products(given.get("vendor", ""), config_dirs)) == 1:
        words.append(f"hardware={found[0]}")
    return compose(words, config_dirs)


def products(vendor: str, config_dirs: Sequence[Path] = ()) -> list[str]:
    """The names of a vendor's products, sorted."""
    folders = search_path(config_dirs)
    files = {name: find(f"hardware/{name}", folders) for name in options("hardware", folders)}
    is_its = re.compile(rf"^vendor: *[\"']?{re.escape(vendor)}\b", re.MULTILINE)
    return [name for name, path in files.items() if path and is_its.search(path.read_text(encoding="utf-8"))]
