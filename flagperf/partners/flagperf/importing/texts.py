"""YAML as people write it: aligned comments, one a value, and paragraphs of comment above."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

WIDTH, COLUMN = 120, 35
GLOBAL = "# @package _global_"


def title(command: str, paragraphs: Iterable[str], *, rooted: bool = True) -> list[str]:
    """The first lines of a file: the command that runs it, and what there is to know of it."""
    lines = [GLOBAL] if rooted else []
    lines.append(f"# {command}")
    for paragraph in paragraphs:
        lines += ["#", *comment(paragraph)]
    return lines


def comment(text: str) -> Iterator[str]:
    """A comment in as many lines as it needs. Lines of the text stay lines."""
    for line in text.splitlines():
        wrapped = textwrap.wrap(line, WIDTH - 2, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
        yield from (f"# {part}" for part in wrapped or [""])


def entry(key: str, value: Any, said: str = "", indent: int = 0) -> str:
    """`key: value`, with a comment."""
    text = f"{' ' * indent}{key}: {plain(value)}"
    return f"{text.ljust(COLUMN - 1)} # {said}" if said else text


def plain(value: Any) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def name_of(path: Path, root: Path) -> str:
    """A file below the root as people know it."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
