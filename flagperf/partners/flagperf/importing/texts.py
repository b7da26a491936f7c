"""YAML as people write it: values with aligned comments, and paragraphs of comments above."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

WIDTH, COLUMN = 120, 35
GLOBAL = "# @package _global_"


def title(command: str, paragraphs: Iterable[str], *, rooted: bool = True) -> list[str]:
    """The first lines of a file: a command that uses the file, and paragraphs of comments."""
    lines = [GLOBAL] if rooted else []
    lines.append(f"# {command}")
    for paragraph in paragraphs:
        lines += ["#", *comment(paragraph)]
    return lines


def comment(text: str) -> Iterator[str]:
    """The lines of a comment. Line breaks of the text stay, and long lines are wrapped."""
    for line in text.splitlines():
        wrapped = textwrap.wrap(line, WIDTH - 2, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
        yield from (f"# {part}" for part in wrapped or [""])


def entry(key: str, value: Any, comment: str = "", indent: int = 0) -> str:
    """A line `key: value`, with a comment."""
    text = f"{' ' * indent}{key}: {plain(value)}"
    return f"{text.ljust(COLUMN - 1)} # {comment}" if comment else text


def plain(value: Any) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
