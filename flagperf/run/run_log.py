"""flagperf_run.log: the actions of the launcher, in FlagPerf's line format."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from flagperf.errors import ConfigError
from flagperf.plain import plain
from flagperf.run.folder import RUN_LOG

INDENT = 11  # columns that `flagperf.run.progress` gives to the seconds at the start of a line


@contextmanager
def run_log(folder: Path, level: str, console: Console) -> Iterator[None]:
    """Log the launcher's actions to `folder`/flagperf_run.log while the block runs.

    A line is `time<TAB>[LEVEL]<TAB>[file,line]message`. Warnings are also printed on `console`, whatever `level` is,
    each once in a run. Errors are not: the code that logs an error also prints it.
    """
    path = folder / RUN_LOG
    try:
        file = _Lasting(path, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write the run log: {error.strerror}", where=str(path), advice="choose a writable result_dir"
        ) from error
    file.setFormatter(_Plain("%(asctime)s\t[%(levelname)s]\t[%(filename)s,%(lineno)d]%(message)s"))
    file.setLevel(level.upper())
    root = logging.getLogger("flagperf")
    before = root.level
    root.setLevel(min(file.level, logging.WARNING))
    handlers = (file, _Warnings(console))
    for handler in handlers:
        root.addHandler(handler)
    root.info("flagperf started.")
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
            with suppress(OSError):  # as `_Lasting`
                handler.close()
        root.setLevel(before)


class _Lasting(logging.FileHandler):
    """A log on a disk that may become full or read-only. Writers of results report this error once."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


class _Warnings(logging.Handler):
    """Prints warnings, above the changing line of a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno > logging.WARNING or text in self._printed:
            return
        self._printed.add(text)
        line = f"{'':{INDENT}}warning {text}"
        self._console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)
