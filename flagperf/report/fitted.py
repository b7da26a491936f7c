"""Tables of the terminal that break lines between words, and not within words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text
from typing_extensions import override

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

UNLIMITED = 100_000  # columns: the width at which cells are measured


class FittedTable(Table):
    """A table without lines. Where its words have no room beside each other, each row is a block of lines.

    A word that is longer than half of the terminal is broken, such as a path.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"box": None, "pad_edge": False, "padding": (0, 2, 0, 0), "header_style": "bold", **options})

    @override
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update_width(UNLIMITED)
        measured = [
            [console.measure(cell, options=wide) for cell in (column.header, *column.cells)] for column in self.columns
        ]
        gap = self.padding[1] + self.padding[3]
        room = options.max_width - gap * (len(self.columns) - 1)
        widths = fitted(
            [max(cell.maximum for cell in cells) for cells in measured],
            [max(min(cell.minimum, options.max_width // 2) for cell in cells) for cells in measured],
            room,
        )
        if widths is None:
            yield from self._blocks()
            return
        for column, width in zip(self.columns, widths, strict=True):
            column.width, column.overflow = width, "fold"
        yield from super().__rich_console__(console, options)

    def _blocks(self) -> RenderResult:
        """Each row as lines of heading and cell."""
        for row in zip(*(column.cells for column in self.columns), strict=True):
            block = Table(box=None, show_header=False, pad_edge=False, padding=self.padding)
            block.add_column(style="bold", no_wrap=True)
            block.add_column(overflow="fold")
            for column, cell in zip(self.columns, row, strict=True):
                block.add_row(column.header, cell)
            yield block
            yield Text("")


def fitted(widest: Sequence[int], narrowest: Sequence[int], room: int) -> list[int] | None:
    """Widths of columns that need no more than `room` together; None: there is too little room.

    Args:
        widest: width of the longest cell of each column.
        narrowest: width of the longest word of each column.
    """
    widths = list(widest)
    while (excess := sum(widths) - room) > 0:
        wide = [index for index, width in enumerate(widths) if width > narrowest[index]]
        if not wide:
            return None
        index = max(wide, key=widths.__getitem__)
        others = max((widths[other] for other in wide if other != index), default=0)
        widths[index] = max(narrowest[index], widths[index] - excess, min(others, widths[index] - 1))
    return widths
