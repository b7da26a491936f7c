"""Reads a vendor's tool that prints a table with headings: each figure stands below its heading.

Three forms are known. A device of a box with `|` has as many lines as the headings; a line below plain headings, or a
line with commas, is a device. So a column that a new version of the tool adds changes nothing, and a column that is
renamed is missing: no figure is read from another column.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

INDEX = "index"  # the name of a device's number, beside the figures
PRINTED = {  # unit → what tools print for it; many print MB where they count MiB
    "C": ("C", "c"),
    "MiB": ("MiB", "MB", "M"),
    "GiB": ("GiB", "GB", "G"),
    "KiB": ("KiB", "KB", "K"),
    "MHz": ("MHz", "Mhz"),
    "fraction": (),
}
LAST = "$"  # after a heading: it is the last one of its line
SECOND = "{} (2)"  # the name of a heading that was there before
_WORD = re.compile(r"\S*\d\S*(?: (?:°?C|m?W|[KMG]i?B?/?|%|M[Hh]z)(?!\S))?|\S+")  # a number with its unit is one word
_RULE = re.compile(r"[-=+|\s]*")  # a line between the rows of a box
_HEADING = re.compile(r"\S+(?: \S+)*")
_VALUE = re.compile(r"(?P<number>[+-]?\d+(?:\.\d+)?)(?P<unit>[^\d]*)", re.ASCII)


class Row(NamedTuple):
    """A device in a tool's output."""

    text: str
    figures: Mapping[str, str | None]  # figure, or index → its number as text; None: not known


@dataclass
class Parsed:
    """A tool's output, read."""

    others: list[str]  # lines that belong to no device
    rows: list[Row] = field(default_factory=list)
    lacks: dict[str, str] = field(default_factory=dict)  # figure → why no device has it


class Place(NamedTuple):
    """Where a heading stands."""

    line: int  # of the headings
    cell: int  # of the line, between two `|` or commas
    start: int  # in the cell
    end: int


@dataclass(frozen=True)
class Columns:
    """The headings of a tool's table."""

    headings: Mapping[str, Sequence[str]]  # figure, or index → its heading; several for versions of the tool
    units: Mapping[str, str]  # figure → its unit in the table

    @property
    def names(self) -> frozenset[str]:
        """The figures that the table can show, and index."""
        return frozenset(self.headings)

    def parse(self, text: str) -> Parsed:
        """The devices in a tool's output. Raises ValueError where the headings are missing, or do not fit the rows."""
        lines = text.splitlines()
        first = next((number for number, line in enumerate(lines) if self._begins(line)), None)
        if first is None:
            raise ValueError(f"no column {' or '.join(self._first)}")
        begin, end = _box(lines, first) if "|" in lines[first] else (first, first + 1)
        head, parsed = lines[begin:end], Parsed([*filter(_has_text, lines[:begin])])
        places = _places(head)
        columns = self._columns(places, parsed)
        for block in _blocks(lines[end:], head, parsed.others):
            values = _below(list(map(_cells, block)), places)
            index = values.get(columns[INDEX][0], "") if INDEX in columns else "0"
            if not index.isdecimal():
                parsed.others += block
                continue
            figures = {name: self._number(name, column, values, parsed) for name, column in columns.items()}
            parsed.rows.append(Row("\n".join(block), figures))
        return parsed

    @property
    def _first(self) -> list[str]:
        """Headings that may begin the table: those of the index, else those of the figures."""
        headings = self.headings.get(INDEX) or itertools.chain.from_iterable(self.headings.values())
        return [heading.removesuffix(LAST) for heading in headings]

    def _begins(self, line: str) -> bool:
        return not _places([line]).keys().isdisjoint(self._first)

    def _columns(self, places: Mapping[str, Place], parsed: Parsed) -> dict[str, tuple[str, int]]:
        """Figure → its heading, and which part of the text below: 150 W of "30 W / 150 W" is part 1."""
        columns: dict[str, tuple[str, int]] = {}
        for name, headings in self.headings.items():
            heading = next(filter(None, (_found(heading, places) for heading in headings)), None)
            if heading is None:
                parsed.lacks[name] = f"no column {' or '.join(headings)} of {name}; the columns are {', '.join(places)}"
            elif SECOND.format(heading) in places:
                parsed.lacks[name] = f"two columns {heading} of {name}"
            else:
                columns[name] = heading, [taken for taken, _ in columns.values()].count(heading)
        return columns

    def _number(self, name: str, column: tuple[str, int], values: Mapping[str, str], parsed: Parsed) -> str | None:
        """The number of a figure; None where the tool does not know it, or shows something else below the heading."""
        heading, part = column
        text = values.get(heading, "")
        parts = [part.strip() for part in re.sub("n/a", "", text, flags=re.IGNORECASE).split("/")]
        shown = parts[part] if part < len(parts) else ""
        if not re.search(r"\d", shown):
            return None
        value, last = _VALUE.fullmatch(shown), _VALUE.fullmatch(parts[-1])
        unit = self.units.get(name, "")
        if value is not None:
            printed = _unit(value) or (_unit(last) if last else "")  # "810/65536 MiB" has one unit for both
            if printed in ("", unit, *PRINTED.get(unit, ())):
                return value["number"]
        parsed.lacks.setdefault(name, f"{text!r} in the column {heading} is no {name} in {unit or 'numbers'}")
        return None


def _unit(value: re.Match[str]) -> str:
    """The unit of a value, without a sign of degrees."""
    return "".join(letter for letter in value["unit"] if letter.isascii() and not letter.isspace())


def _has_text(line: str) -> bool:
    return not _RULE.fullmatch(line)


def _box(lines: Sequence[str], first: int) -> tuple[int, int]:
    """The lines of a box around a line: up to the rules above and below it."""
    begin = end = first
    while begin > 0 and "|" in lines[begin - 1] and _has_text(lines[begin - 1]):
        begin -= 1
    while end < len(lines) and "|" in lines[end] and _has_text(lines[end]):
        end += 1
    return begin, end


def _cells(line: str) -> list[str]:
    """The parts of a line: between `|`, else between commas, else the line."""
    if "|" in line:
        return line.strip().strip("|").split("|")
    return line.split(",")


def _places(head: Sequence[str]) -> dict[str, Place]:
    """Heading → where it stands."""
    places: dict[str, Place] = {}
    for number, line in enumerate(head):
        for cell, text in enumerate(_cells(line)):
            for match in _HEADING.finditer(text):
                name = SECOND.format(match[0]) if match[0] in places else match[0]
                places[name] = Place(number, cell, *match.span())
    return places


def _found(heading: str, places: Mapping[str, Place]) -> str | None:
    """The heading as it stands in the table; None where it is not there."""
    name = heading.removesuffix(LAST)
    if name not in places:
        return None
    after = [place for place in places.values() if place.line == places[name].line and place > places[name]]
    return None if after and name != heading else name


def _blocks(lines: Sequence[str], head: Sequence[str], others: list[str]) -> Iterator[list[str]]:
    """The lines of each device, as many as the headings have, to the end of the table; `others` gets the other lines.

    Raises ValueError where the lines of a box are no multiple of its headings.
    """
    is_box, shape = "|" in head[0], [len(_cells(line)) for line in head]
    groups = (list(group) for has_text, group in itertools.groupby(lines, _has_text) if has_text)
    for group in groups:
        rows = [line for line in group if ("|" in line) == is_box]
        others += (line for line in group if line not in rows)
        if is_box and any(len(_cells(line)) not in shape for line in rows):  # another table, such as that of processes
            others += rows
            break
        if len(rows) % len(head):
            raise ValueError(f"{len(rows)} lines of devices below {len(head)} lines of headings")
        for start in range(0, len(rows), len(head)):
            block = rows[start : start + len(head)]
            if [len(_cells(line)) for line in block] == shape:
                yield block
            else:
                others += block
        if rows and not is_box:
            break
    others += itertools.chain.from_iterable(groups)


def _below(cells: Sequence[Sequence[str]], places: Mapping[str, Place]) -> dict[str, str]:
    """Heading → the text below it. A word belongs to the heading that it is below, else to the nearest one."""
    words: dict[str, list[str]] = {}
    for number, line in enumerate(cells):
        for cell, text in enumerate(line):
            near = {name: place for name, place in places.items() if (place.line, place.cell) == (number, cell)}
            for word in _WORD.finditer(text) if near else ():
                heading = max(near, key=lambda name: _overlap(near[name], word.start(), word.end()))
                words.setdefault(heading, []).append(word[0])
    return {heading: " ".join(found) for heading, found in words.items()}


def _overlap(place: Place, start: int, end: int) -> int:
    """How many letters of a word are below a heading; negative: the distance between both."""
    return min(place.end, end) - max(place.start, start)
