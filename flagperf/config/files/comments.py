"""The comments of a configuration file, by key: each knob has one, with its unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml


def comments(path: Path) -> dict[str, str]:
    """Dotted key → the comment at the end of its line; keys without one are absent."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    return {
        key: found[1] for key, rest in _rests(yaml.compose(text), lines) if (found := re.match(r"\s*#\s*(.+)", rest))
    }


def _rests(node: yaml.Node | None, lines: Sequence[str], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each key with what follows it on its line: after the value where that ends there, else after the colon."""
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        key, begins = f"{prefix}{name.value}", name.end_mark
        inline = value.end_mark.line == begins.line
        rest = lines[begins.line][value.end_mark.column if inline else begins.column :]
        yield key, rest if inline else re.sub(r"^\s*:\s*[|>]?", "", rest)
        yield from _rests(value, lines, f"{key}.")
