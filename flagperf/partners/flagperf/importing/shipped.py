"""The shipped tuning of a vendor, case and scale: its values, and the reasons where they differ from FlagPerf's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.files.comments import comments
from flagperf.config.files.read_once import read_yaml
from flagperf.config.files.search_path import CONF, find

NOT_THEIRS = re.compile(r"not FlagPerf's (?P<theirs>[^:]+): (?P<why>.+)")  # the comment of a value that differs


@dataclass(frozen=True)
class Shipped:
    """A value of a shipped tuning."""

    value: Any
    file: str  # nvidia/resnet50/A100.yaml
    theirs: str | None  # FlagPerf's value in YAML; None: the file names no other value
    why: str  # the reason why the value differs from FlagPerf's


def shipped_tuning(vendor: str, case: str, hardware: str, scale: str) -> Mapping[str, Shipped] | None:
    """Key → value of the shipped tuning of a scale, else of the product; None where flagperf ships no such tuning.

    The keys below `vendor` are left out.
    """
    group = f"vendor/{vendor}/{case}"
    paths = (find(f"{group}/{name}", (CONF,)) for name in (f"{hardware}x{scale}", hardware))
    path = next((path for path in paths if path), None)
    return _with_defaults(path) if path else None


def _with_defaults(path: Path) -> dict[str, Shipped]:
    """The values of a file, over the values of the files in its defaults list."""
    below = (path.with_name(f"{name}.yaml") for name in read_yaml(path).get("defaults", ()) if name != "_self_")
    return {key: value for file in below for key, value in _with_defaults(file).items()} | _values(path)


def _values(path: Path) -> dict[str, Shipped]:
    comment_of = comments(path)
    file = path.relative_to(CONF / "vendor").as_posix()
    values = {key: value for key, value in read_yaml(path).items() if key not in ("defaults", "vendor")}
    matches = {key: NOT_THEIRS.match(comment_of.get(key, "")) for key in values}
    return {
        key: Shipped(value, file, match["theirs"] if (match := matches[key]) else None, match["why"] if match else "")
        for key, value in values.items()
    }
