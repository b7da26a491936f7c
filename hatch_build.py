"""Writes the commit that a wheel is built from into the wheel, for `flagperf --version`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    """Adds flagperf/commit.txt where the sources are a checkout of git."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file. An editable installation asks git each time, and needs no file."""
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        command = ("git", "-C", self.root, "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            file = Path(self.directory) / "commit.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(done.stdout)
            build_data["force_include"][str(file)] = "flagperf/commit.txt"
