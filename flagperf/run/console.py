"""The terminal of the launcher."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from typing_extensions import override

from flagperf.plain import plain

UNFOLDED = 100_000  # characters: the width of a table in a file

log = logging.getLogger(__name__)


class Terminal(Console):
    """A console whose text has no control characters. A run goes on after the reader of the console went away.

    A long line is folded to fit a terminal, but not in a file or a pipe.
    """

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        options.setdefault("file", _Lasting(sys.stderr if stderr else sys.stdout))
        super().__init__(stderr=stderr, **options)
        if not self.is_terminal and "width" not in options:
            self.width = UNFOLDED

    @override
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))

    def print_table(self, table: RenderableType) -> None:
        """Print a table or a text, without spaces at the ends of lines."""
        with self.capture() as shown:
            self.print(table)
        self.file.write("".join(f"{line.rstrip()}\n" for line in shown.get().splitlines()))


def note(console: Console, text: str) -> None:
    """Print a remark, and log it."""
    log.info("%s", text)
    console.print(f"  {text}", style="dim", highlight=False, markup=False, soft_wrap=True)


def print_unfolded(table: RenderableType) -> None:
    """Print a table or a text, without spaces at the ends of lines."""
    Terminal(file=sys.stdout).print_table(table)  # a full disk is an error


def print_rows(rows: Sequence[Mapping[str, str]]) -> None:
    """Print rows with the same keys as a table; no rows: nothing."""
    from rich.table import Table  # heavy; a run prints none

    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(Text(name))  # [GB/s] would be read as markup
    for row in rows:
        table.add_row(*map(Text, row.values()))
    print_unfolded(table)


class _Lasting:
    """A stream that ignores further text after its end: a closed pipe, a terminal that hung up, a full disk."""

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
        except OSError:  # from now on the stream leads nowhere, also for other writers
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            return work(*arguments)
