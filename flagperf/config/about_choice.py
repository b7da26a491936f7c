"""Describes a vendor, product, framework, cluster or experiment: its title, its relations, and its values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from flagperf.config.files.comments import comments
from flagperf.config.files.search_path import cases, find, options
from flagperf.contract.leaves import leaves
from flagperf.contract.regular import read_yaml
from flagperf.errors import ConfigError

VENDOR, HARDWARE = "vendor", "hardware"
GROUPS = (VENDOR, HARDWARE, "framework", "cluster", "experiment")  # a case has its own description
APART = ("title", "defaults")  # keys that are no values
COMMAND = re.compile(r"^# (flagperf .+)$", re.MULTILINE)

Row = tuple[str, str]


def groups_of(name: str, folders: Sequence[Path]) -> list[str]:
    """The groups with a choice of this name."""
    return [group for group in GROUPS if name in options(group, folders)]


def about_choice(group: str, name: str, folders: Sequence[Path]) -> list[Row]:
    """Names and texts that describe a choice, for two columns.

    Raises:
        ConfigError: the file of the choice is not YAML.
    """
    path = find(f"{group}/{name}", folders)
    assert path
    text, content = path.read_text(encoding="utf-8"), _read(path)
    section = content.get(group) if group == VENDOR else content
    title = (section or {}).get("title") or _first_comment(text)
    rows = [(name, f"{title} ({group})"), *(("command", command) for command in COMMAND.findall(text))]
    rows.append(("file", str(path)))
    return [*rows, *(_of_vendor(name, folders) if group == VENDOR else _values(path, content))]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml(path, aliases=True)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError("this file is not YAML", where=str(path), given=str(error).partition("\n")[0]) from None
    return content if isinstance(content, dict) else {}


def _first_comment(text: str) -> str:
    """The first comment that is not a command."""
    comment = re.search(r"^# (?!@package|flagperf)(.+)$", text, re.MULTILINE)
    return comment[1] if comment else ""


def _of_vendor(vendor: str, folders: Sequence[Path]) -> Iterator[Row]:
    """The products of a vendor, and its tunings of each case."""
    products = [name for name in options(HARDWARE, folders) if product_vendor(name, folders) == vendor]
    yield "hardware", ", ".join(products) or "none"
    tuned = {case: options(f"{VENDOR}/{vendor}/{case}", folders) for case in cases(folders)}
    for case, names in tuned.items():
        if names:
            yield f"tunings of {case}", ", ".join(names)


def product_vendor(name: str, folders: Sequence[Path]) -> str:
    """The vendor of a product, as its file says; "" where the file names none."""
    path = find(f"{HARDWARE}/{name}", folders)
    match = re.search(r"^vendor:\s*([\w.-]+)", path.read_text(encoding="utf-8"), re.MULTILINE) if path else None
    return match[1] if match else ""


def _values(path: Path, content: dict[str, Any]) -> Iterator[Row]:
    """Each value of a file, with its comment."""
    texts = comments(path)
    for key, value in leaves({key: value for key, value in content.items() if key not in APART}).items():
        shown = _text(value)
        yield key, f"{shown} · {texts[key]}" if texts.get(key) else shown


def _text(value: Any) -> str:
    """A value as users write it: 1.95e+13, and not 19500000000000.0."""
    if isinstance(value, str):
        return value
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
