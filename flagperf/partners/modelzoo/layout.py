"""Faults of a model folder's files: those of the guide's tree must exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flagperf.partners.modelzoo import guide
from flagperf.partners.modelzoo.fault import Fault


def layout_faults(folder: Path) -> Iterator[Fault]:
    """Files that are missing or empty."""
    scripts = folder / guide.SCRIPTS
    names = (guide.REQUIREMENTS, guide.README, *(f"{guide.SCRIPTS}/{name}" for name in (guide.ARGUMENT, guide.FORMAT)))
    for name in names:
        yield from _of_file(folder, (name,))
    yield from _of_file(folder, tuple(f"{guide.SCRIPTS}/{name}" for name in guide.SCRIPT_READMES))
    if not list(scripts.glob("run_*.py")):
        yield Fault(
            f"{guide.SCRIPTS}/run_<model>.py",
            "no such file",
            "a script that turns the arguments into the start command, prints it and runs it",
            "write it; flagperf modelzoo export shows one",
        )


def _of_file(folder: Path, names: tuple[str, ...]) -> Iterator[Fault]:
    """A fault where no file has one of the names, or the file is empty."""
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        yield Fault(names[0], "no such file", "a file of this name", "add it")
    elif not path.read_bytes().strip():
        yield Fault(str(path.relative_to(folder)), "an empty file", "a file with content", "fill it")
