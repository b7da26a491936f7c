"""What can be chosen: the names and titles of cases, vendors, hardware, clusters and experiments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from flagperf.config.search_path import find, options, search_path

KINDS = {
    "cases": "model",
    "vendors": "vendor",
    "hardware": "hardware",
    "clusters": "cluster",
    "experiments": "experiment",
}  # what `flagperf list` calls it → configuration group


def rows(kind: str, config_dirs: Sequence[Path] = ()) -> list[tuple[str, str]]:
    """Name and title of each choice of a kind, sorted by name; the user's own folders included.

    Files are not parsed, so that one with an error does not hide the others.
    """
    folders = search_path(config_dirs)
    group = KINDS[kind]
    found = ((name, find(f"{group}/{name}", folders)) for name in options(group, folders))
    return [(name, _title(path.read_text(encoding="utf-8"))) for name, path in found if path]


def _title(text: str) -> str:
    """The value of `title:`, else the first comment that is not a command."""
    if named := re.search(r"^\s*title:\s*(.+?)\s*$", text, re.MULTILINE):
        return named[1].split("  #")[0].strip().strip("\"'")
    comments = re.findall(r"^# (?!@package|flagperf)(.+)$", text, re.MULTILINE)
    return comments[0] if comments else ""
