"""Writes the commit that a wheel is built from into the wheel, for `flagperf --version`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    """Adds flagperf/commit.txt where the sources are a checkout of git."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file. An editable installation asks git each time, and needs no file."""
        if version == "editable":
            return
        commit = runpy.run_path(str(Path(self.root) / "flagperf/cli/commit.py"))["commit"]()
        if commit:
            file = Path(self.root) / "build/commit.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{commit}\n")
            build_data["force_include"][str(file)] = "flagperf/commit.txt"
