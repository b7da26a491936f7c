"""Reads the comments of a configuration file. Each key has a comment with its unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml


def comments(path: Path) -> dict[str, str]:
    """Dotted key → the comment at the end of its line; keys without a comment are absent."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    ends = _line_ends(yaml.compose(text), lines)
    return {key: match[1] for key, end in ends if (match := re.match(r"\s*#\s*(.+)", end))}


def _line_ends(node: yaml.Node | None, lines: Sequence[str], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each key with the rest of its line, after a value of one line or after the colon."""
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        key, colon = f"{prefix}{name.value}", name.end_mark
        inline = value.end_mark.line == colon.line
        end = lines[colon.line][value.end_mark.column if inline else colon.column :]
        yield key, end if inline else re.sub(r"^\s*:\s*[|>]?", "", end)
        yield from _line_ends(value, lines, f"{key}.")
