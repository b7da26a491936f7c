"""Sample data: the same bytes each time, in the layout that the case asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shipped import FAMILIES

from flagperf.config.parts.data_layout import check_layout
from flagperf.contract.components import component

QUICK = ("bert", "cpm", "glm", "resnet50")  # texts, words, numbers and pictures


def contents(folder: Path) -> dict[str, str]:
    """Relative path → digest of each file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in FAMILIES]
)
def test_same_bytes_each_time(tiny: Callable[[str], dict[str, Any]], tmp_path: Path, case: str) -> None:
    config = tiny(case)
    component(config["data"], "sample", str(tmp_path))
    assert contents(tmp_path) == contents(Path(config["data_dir"]))


@pytest.mark.parametrize("case", FAMILIES)
def test_layout(tiny: Callable[[str], dict[str, Any]], case: str) -> None:
    config = tiny(case)
    check_layout(config["data"], Path(config["data_dir"]))
