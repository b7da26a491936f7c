"""PaddlePaddle lies in an environment of its own: tests run its code in processes of that one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = Path(f"{sys.prefix}-paddle/bin/python")


def run(*arguments: str | Path, timeout: float = 250, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Paddle's Python with these arguments; its output is text.

    Raises:
        AssertionError: there is no such environment; these tests do not pass without one.
    """
    assert PYTHON.exists(), "no environment with PaddlePaddle; do: make paddle"
    return subprocess.run(
        [PYTHON, "-W", "ignore", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
