"""How a benchmark says a figure that has a limit, in a line that all.py collects; and the CPU time of a command."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

ROUNDS = 7
IMPORT_HYDRA = [sys.executable, "-c", "import hydra, omegaconf"]  # what every Hydra program pays
MARK = "= "


def say(title: str, measured: float, limit: float, unit: str, *, least: bool = False) -> None:
    """Print a figure and whether its limit is met.

    Args:
        unit: of both; "x" and "s" are of a ratio to, and a difference from, a baseline of the same run.
        least: the limit is the least value, not the most.
    """
    met = "met" if (measured >= limit if least else measured <= limit) else "MISSED"
    bound = "at least" if least else "at most"
    print(f"{MARK}{title} | {bound} {limit:g} {unit} | {measured:.3g} {unit} | {met}", flush=True)


@contextmanager
def compiled() -> Iterator[dict[str, str]]:
    """An environment in which Python keeps what it compiled, whatever that of the user says."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        yield {**kept, "PYTHONPYCACHEPREFIX": folder}


def cpu_seconds(command: Sequence[str], environment: dict[str, str], rounds: int = ROUNDS) -> float:
    """Median user + system seconds of a command and its children."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    once()  # compiles, and fills the page cache
    return statistics.median(once() for _ in range(rounds))
