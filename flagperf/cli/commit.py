"""The commit of git that the installed flagperf was made from. Only the standard library: hatch_build.py runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
RECORDED = PACKAGE / "commit.txt"  # in a wheel: hatch_build.py writes the file
DESCRIBE = ("describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")


def commit() -> str:
    """Twelve digits of the commit, with `-dirty` where files differ from the commit; empty if nobody knows."""
    if RECORDED.is_file():
        return RECORDED.read_text(encoding="utf-8").strip()
    checkout = PACKAGE.parent
    if not (checkout / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ("git", "-C", str(checkout), *DESCRIBE), capture_output=True, text=True, errors="replace", check=False
        )
    except OSError:  # no git here
        return ""
    return done.stdout.strip()
