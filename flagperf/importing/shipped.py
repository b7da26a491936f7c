"""The shipped tuning of a vendor, case and scale: its values, and why they are others than FlagPerf's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flagperf.config.comments import comments
from flagperf.config.search_path import CONF
from flagperf.config.user_files import plain_files, read_yaml

NOT_THEIRS = re.compile(r"not FlagPerf's (?P<theirs>[^:]+): (?P<why>.+)")  # the comment of a value that differs


@dataclass(frozen=True)
class Shipped:
    """A value of a shipped tuning."""

    value: Any
    file: str  # nvidia/resnet50/A100.yaml
    theirs: str | None  # FlagPerf's value, as YAML writes it; None: the file does not tell of another
    why: str  # the value is not theirs


def shipped_tuning(vendor: str, case: str, hardware: str, scale: str) -> Mapping[str, Shipped] | None:
    """Key → value of the shipped tuning that a run takes: that of the scale, else of the product; None: there is none.

    What it says of the vendor's software is left out.
    """
    for name in (f"vendor/{vendor}/{case}/{hardware}x{scale}", f"vendor/{vendor}/{case}/{hardware}"):
        if files := plain_files(name, (CONF,)):
            return {key: value for path in files for key, value in _values(path).items()}
    return None


def _values(path: Path) -> dict[str, Shipped]:
    said = comments(path)
    file = path.relative_to(CONF / "vendor").as_posix()
    values = {key: value for key, value in read_yaml(path).items() if key not in ("defaults", "vendor")}
    found = {key: NOT_THEIRS.match(said.get(key, "")) for key in values}
    return {
        key: Shipped(value, file, told["theirs"] if (told := found[key]) else None, told["why"] if told else "")
        for key, value in values.items()
    }
