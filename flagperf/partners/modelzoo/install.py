"""Installs the requirements of a model folder in a new environment, on top of the packages of the given interpreter."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.fault import Fault

ABOVE = (  # adds the packages of the given interpreter to the environment
    "import site, sys, sysconfig; from pathlib import Path; "
    "lines = [f'import site; site.addsitedir({folder!r})' for folder in site.getsitepackages()]; "
    "below = sysconfig.get_path('purelib', 'venv', {'base': sys.argv[1], 'platbase': sys.argv[1]}); "
    "Path(below, 'above.pth').write_text('\\n'.join(lines))"
)
PIP = ("install", "--quiet", "--no-input", "--no-compile", "--disable-pip-version-check", "-r", guide.REQUIREMENTS)
LAST = 6  # lines of pip in a fault


def install(folder: Path, python: str, into: Path, limit: float) -> tuple[str, Fault | None]:
    """Install the requirements. The packages of `python` count, and stay unchanged.

    Args:
        into: a new folder for the environment.
        limit: seconds that each step may take.

    Returns:
        The interpreter of the environment, and a fault or None.
    """
    interpreter = str(into / "bin" / "python")
    for argv in (
        [python, "-m", "venv", "--without-pip", str(into)],
        [python, "-c", ABOVE, str(into)],
        [python, "-m", "pip", "--python", interpreter, *PIP],
    ):
        problem = _run(argv, folder, limit)
        if problem is not None:
            return interpreter, Fault(
                guide.REQUIREMENTS, problem, "packages that pip installs", "run pip install by hand"
            )
    return interpreter, None


def _run(argv: Sequence[str], folder: Path, limit: float) -> str | None:
    """None where the command succeeded, else its last lines."""
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        return f"pip still works after {limit:g} s"
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"
    lines = (done.stdout + done.stderr).splitlines()[-LAST:]
    return None if done.returncode == 0 else "\n           ".join([f"exit status {done.returncode}", *lines])
