"""The command `flagperf` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FLAGPERF = (sys.executable, "-c", "from flagperf.cli.main import main; main()")


def flagperf(
    *words: str, cwd: Path | None = None, timeout: float = 280, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command; `variables` are added to its environment."""
    env, argv = {**os.environ, **variables}, [*FLAGPERF, *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=cwd, timeout=timeout, check=False, env=env)
