"""Which file set a key: looked up only when a message must name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.keys import is_under
from flagperf.config.search_path import find

Where = Callable[[str], str]  # dotted key → the file or "command line" that set it


def origin(names: Sequence[str], folders: Sequence[Path], from_command_line: Collection[str]) -> Where:
    """A function from a dotted key to the file that set it, or "command line".

    Args:
        names: the files of the composition, such as "vendor/nvidia", the one that wins first.
        folders: the search path.
        from_command_line: the keys that the command line set.
    """

    def where(key: str) -> str:
        parts = re.sub(r"\[\d+\].*", "", key).split(".")
        if is_under(".".join(parts), from_command_line):
            return "command line"
        while parts:
            for name in names:
                path = find(name, folders)
                if path and _sets(path, name.split("/")[0], parts):
                    return str(path)
            parts.pop()
        return "command line"

    return where


def _sets(path: Path, group: str, parts: Sequence[str]) -> bool:
    """True when the file has the key, written from the root or from its group."""
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    return _has(tree, parts) or (parts[0] == group and _has(tree, parts[1:]))


def _has(tree: Any, parts: Sequence[str]) -> bool:
    for part in parts:
        tree = {str(name): value for name, value in tree.items()} if isinstance(tree, Mapping) else {}
        if part not in tree:
            return False
        tree = tree[part]
    return True
