"""The terminal of the launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from flagperf.plain import plain

UNFOLDED = 100_000  # characters: the width of what goes to a file


class Terminal(Console):
    """A console on which text can do nothing but be read, and whose reader may go away: a run goes on without one."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        options.setdefault("file", _Lasting(sys.stderr if stderr else sys.stdout))
        super().__init__(stderr=stderr, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))


def print_unfolded(table: RenderableType) -> None:
    """Print what has lines. A line is folded to fit a terminal, and never in a file or a pipe."""
    console = Terminal(file=sys.stdout, width=None if sys.stdout.isatty() else UNFOLDED)  # a full disk is an error
    with console.capture() as shown:
        console.print(table)
    print("\n".join(line.rstrip() for line in shown.get().splitlines()))


class _Lasting:
    """A stream whose end costs nothing but what it would show: a closed pipe, a terminal that hung up, a full disk."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return int(self._lasting(self._stream.write, text))

    def flush(self) -> None:
        self._lasting(self._stream.flush)

    def _lasting(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except OSError:  # from now on it leads nowhere, for whoever else writes to it, too
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            return work(*arguments)
