"""flagperf_run.log: what the launcher did, in FlagPerf's line format, beside what the terminal shows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flagperf.errors import ConfigError

LEVELS = ("debug", "info", "warning", "error")


@contextmanager
def run_log(folder: Path, level: str) -> Iterator[None]:
    """Log everything below `flagperf` into `folder`/flagperf_run.log while the block runs.

    A line is `time<TAB>[LEVEL]<TAB>[file,line]message`. Warnings also reach the terminal by the
    logging module's own last resort being replaced in cli.py.
    """
    path = folder / "flagperf_run.log"
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write the run log: {error.strerror}", where=str(path), advice="choose a writable result_dir"
        ) from error
    handler.setFormatter(logging.Formatter("%(asctime)s\t[%(levelname)s]\t[%(filename)s,%(lineno)d]%(message)s"))
    root = logging.getLogger("flagperf")
    before = root.level
    root.setLevel(level.upper())
    root.addHandler(handler)
    root.info("flagperf started.")
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        handler.close()
