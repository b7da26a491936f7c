r"""Reads the output of a vendor's tool by the vendor file: the heading of each figure, in the output's table.

    monitor:
      command: [acme-smi, --table]       # prints one sample and ends
      columns:
        index: [Device]
        temperature: [Temp, Temperature]   # the headings of two versions of the tool
        power: [Power]
        memory_used: [Memory]              # "3 / 16": the first figure of a heading is the first part
        memory_total: [Memory]
      units: {memory: GiB}               # where they differ from C, W, MiB, %, J

For other outputs, one regular expression with a group for each figure:

      parse: |
        ^\|\s+ (?P<index>\d+) \s+ (?P<temperature>\S+) C \s+ (?P<power>\S+) W
        \s+\|\s+ (?P<memory_used>\S+) \s/\s (?P<memory_total>\S+)

Each match is one device and may span lines. The column or group `index` is the tool's number of the device, from 0,
so that a missing device does not shift the others. Without an index, devices count in the order of the output, and a
sample that lacks a device is not used. The expression has Python's verbose form: `^` and `$` match at line ends, white
space is ignored (`\s` is a space), `#` begins a comment. A text that is no number (`N/A`, `-`, `[Not Supported]`) is an
unknown figure.

Some tools show the power of a whole card on one or on each of its devices. With `power_of: card` each device gets an
equal share, by the hardware's `devices_per_card`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from flagperf.config.schema.monitor_columns import INDEX, Columns, Parsed, Row
from flagperf.config.schema.platform import Hardware, MonitorTool
from flagperf.contract.monitor_log import DEVICE_FIGURES, Device
from flagperf.errors import ConfigError, nearest

OTHER_UNITS = {  # quantity, one figure or several → unit → factor to Device's unit
    "power": {"mW": 1e-3},
    "memory": {
        "GiB": 1024.0,
        "KiB": 1 / 1024,
        "B": 1 / 2**20,
        "MB": 1e6 / 2**20,
        "GB": 1e9 / 2**20,
        "%": 0.0,  # of what the hardware has
    },
    "utilisation": {"fraction": 100.0},
    "energy": {"mJ": 1e-3},
}
UNITS = {  # the same with Device's own unit, which comes first
    quantity: {figure.unit: 1.0, **units}
    for quantity, units in OTHER_UNITS.items()
    for name, figure in DEVICE_FIGURES.items()
    if name.startswith(quantity)
}
MAX_INDEX = 1023  # the most devices of a node are 1024


class Reader(Protocol):
    """One of the two ways to find devices in a tool's output."""

    @property
    def names(self) -> frozenset[str]:
        """The figures that it finds, and index."""

    def parse(self, text: str) -> Parsed:
        """The devices in an output. Raises ValueError where it cannot be read."""


@dataclass(frozen=True)
class Expression:
    """A regular expression: each match is a device."""

    pattern: re.Pattern[str]

    @property
    def names(self) -> frozenset[str]:
        """The groups."""
        return frozenset(self.pattern.groupindex)

    def parse(self, text: str) -> Parsed:
        """The matches. The other lines are those without a letter of a match."""
        matches = list(self.pattern.finditer(text))
        edges = [0, *itertools.chain.from_iterable(match.span() for match in matches), len(text)]
        between = [text[end:start] for end, start in zip(edges[::2], edges[1::2], strict=True)]
        others = [line for part in between for line in part.splitlines() if line.strip()]
        return Parsed(others, [Row(match[0], match.groupdict()) for match in matches])


@dataclass
class Table:
    """Reads a tool's output by its vendor file. Called with the output of each sample, in order."""

    reader: Reader
    factors: dict[str, float]  # figure → factor to Device's unit
    card: int = 1  # devices that share one power figure
    memory: float | None = None  # MiB of a device, for a tool with percentages
    device_count: int = 0  # highest index of all samples so far, plus 1
    last: Parsed = field(default_factory=lambda: Parsed([]))  # the last output

    @property
    def figures(self) -> frozenset[str]:
        """The figures of a device that the tool can show."""
        return self.reader.names - {INDEX} | ({"memory_total"} if self.memory else set())

    @property
    def has_index(self) -> bool:
        """Whether the tool shows the numbers of the devices."""
        return INDEX in self.reader.names

    def __call__(self, text: str) -> list[str]:
        """One line for each device. Raises ValueError where no device can be read."""
        self.last = Parsed([])
        self.last = self.reader.parse(text)
        rows = self.last.rows
        devices = self._by_index(rows) if self.has_index else [self._device(row) for row in rows]
        if not any(device != Device() for device in devices):
            raise ValueError("no device in it")
        cards = [devices[start : start + self.card] for start in range(0, len(devices), self.card)]
        return [device.line() for card in cards for device in self._share(card)]

    def _by_index(self, rows: list[Row]) -> list[Device]:
        """The devices in the order of their indexes. A missing device has no figures."""
        by_index: dict[int, Device] = {}
        for row in rows:
            index = row.figures[INDEX] or ""
            if not re.fullmatch(r"[0-9]{1,4}", index) or int(index) > MAX_INDEX:
                raise ValueError(f"{index!r} is no index of a device")
            if int(index) in by_index:
                raise ValueError(f"two devices have the index {int(index)}")
            by_index[int(index)] = self._device(row)
        self.device_count = max(self.device_count, *(index + 1 for index in by_index), 0)
        return [by_index.get(index, Device()) for index in range(self.device_count)]

    def _device(self, row: Row) -> Device:
        groups = {name: text for name, text in row.figures.items() if name != INDEX}
        device = Device(**{name: _number(text, self.factors.get(name, 1.0)) for name, text in groups.items()})
        if device.memory_used is not None and device.memory_total is None:
            device = replace(device, memory_total=self.memory)
        return device

    def _share(self, card: list[Device]) -> list[Device]:
        """The devices of a card, each with an equal share of the card's power."""
        shown = [power for device in card if (power := device.possible().power) is not None]
        if self.card == 1 or not shown:
            return card
        return [replace(device, power=sum(shown) / len(shown) / len(card)) for device in card]


def make_table(
    tool: MonitorTool, hardware: Hardware, where: Callable[[str], str] = lambda _: "the vendor's file"
) -> Table:
    """Compile a vendor's description for one of its products.

    Args:
        where: dotted key → the file that set it, for messages.

    Raises:
        ConfigError: the command is missing, or a heading, the expression, a group or a unit is wrong.
    """
    if not (tool.command and tool.command[0]):
        key = "vendor.monitor.command"
        raise ConfigError("the command is empty", where=where(key), key=key, given=list(tool.command))
    units = {name: figure.unit for name, figure in DEVICE_FIGURES.items()}
    factors: dict[str, float] = {}
    for quantity, unit in tool.units.items():
        if unit not in UNITS.get(quantity, {}):
            allowed = "; ".join(f"{name}: {' | '.join(units)}" for name, units in UNITS.items())
            key = f"vendor.monitor.units.{quantity}"
            raise ConfigError("unknown unit", where=where(key), key=key, given=unit, allowed=allowed)
        factor = UNITS[quantity][unit] or _percent_of_memory(hardware)
        of_quantity = [figure for figure in DEVICE_FIGURES if figure.startswith(quantity)]
        factors |= dict.fromkeys(of_quantity, factor)
        units |= dict.fromkeys(of_quantity, unit)
    card = hardware.devices_per_card if tool.power_of == "card" else 1
    memory = 100 * _percent_of_memory(hardware) if tool.units.get("memory") == "%" else None
    reader: Reader = _expression(tool.parse, where) if tool.parse else _columns(tool.columns, units, where)
    return Table(reader, factors, card, memory)


def _columns(headings: Mapping[str, Sequence[str]], units: Mapping[str, str], where: Callable[[str], str]) -> Columns:
    key = "vendor.monitor.columns"
    allowed = ", ".join(DEVICE_FIGURES)
    for name, names in headings.items():
        if name not in (INDEX, *DEVICE_FIGURES):
            advice = nearest(name, (INDEX, *DEVICE_FIGURES))
            raise ConfigError("unknown figure", where=where(f"{key}.{name}"), key=key, given=name, advice=advice)
        if not names:
            raise ConfigError("no heading", where=where(f"{key}.{name}"), key=f"{key}.{name}", given=[])
    if not headings.keys() - {INDEX}:
        problem = "the headings of the figures are missing"
        advice = "name the headings of the tool's table, or an expression: vendor.monitor.parse (docs/monitors.md)"
        raise ConfigError(problem, where=where(key), key=key, given=dict(headings), allowed=allowed, advice=advice)
    return Columns(headings, units)


def _expression(text: str, where: Callable[[str], str]) -> Expression:
    key = "vendor.monitor.parse"
    try:
        pattern = re.compile(text, re.VERBOSE | re.MULTILINE)
    except re.error as error:
        raise ConfigError(f"not a regular expression: {error}", where=where(key), key=key, given=text) from error
    for name in pattern.groupindex:
        if name not in (INDEX, *DEVICE_FIGURES):
            advice = nearest(name, (INDEX, *DEVICE_FIGURES))
            raise ConfigError("unknown group", where=where(key), key=key, given=name, advice=advice)
    if not pattern.groupindex.keys() - {INDEX}:
        raise ConfigError(
            "the expression has no group of a figure", where=where(key), key=key, allowed=", ".join(DEVICE_FIGURES)
        )
    return Expression(pattern)


def _percent_of_memory(hardware: Hardware) -> float:
    """MiB of one percent of a device's memory; NaN where the hardware's file has no memory size."""
    return math.nan if hardware.memory_gib is None else hardware.memory_gib * 1024 / 100


def _number(text: str | None, factor: float) -> float | None:
    try:
        number = float(text or "") * factor
    except ValueError:
        return None
    return number if math.isfinite(number) else None
