r"""Reads a vendor's tool as its vendor file describes it: one regular expression whose groups name the figures.

    monitor:
      command: [acme-smi, --table]       # prints one sample and ends
      parse: |
        ^\|\s+ (?P<temperature>\S+) C \s+ (?P<power>\S+) W
        \s+\|\s+ (?P<memory_used>\S+) \s/\s (?P<memory_total>\S+)
      units: {memory: GiB}               # where they differ from C, W, MiB, %, J

Each match is one device, in the order of the output, and may span lines. The expression is written in Python's verbose
form: `^` and `$` match at line ends, white space in it stands for nothing (`\s` is a space), `#` begins a comment. A
group whose text is no number (`N/A`, `-`, `[Not Supported]`) is a figure that the tool does not know.

Some tools show a whole card's power on one or on each of its devices: with `power_of: card` each device gets an equal
share of it, by the hardware's `devices_per_card`.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

from flagperf.config.platform import Hardware, MonitorTool
from flagperf.errors import ConfigError, nearest
from flagperf.monitor_log import DEVICE_FIGURES, Device

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
MAX_POWER = 10_000.0  # W; a broken device may show 65535


@dataclass(frozen=True)
class Table:
    """A tool's output as its vendor file describes it. Called with the output of one sample."""

    pattern: re.Pattern[str]
    factors: dict[str, float]  # figure → factor to Device's unit
    card: int = 1  # devices that share one power figure
    memory: float | None = None  # MiB of a device, for a tool that shows it in percent of that

    @property
    def figures(self) -> frozenset[str]:
        """What can be known of a device."""
        return frozenset(self.pattern.groupindex) | ({"memory_total"} if self.memory else set())

    def __call__(self, text: str) -> list[str]:
        """One line a device. Raises ValueError when no device can be read."""
        devices = [self._device(match) for match in self.pattern.finditer(text)]
        if not any(device != Device() for device in devices):
            raise ValueError("no device in it")
        cards = [devices[first : first + self.card] for first in range(0, len(devices), self.card)]
        return [device.line() for card in cards for device in self._share(card)]

    def _device(self, match: re.Match[str]) -> Device:
        groups = match.groupdict()
        device = Device(**{name: _number(text, self.factors.get(name, 1.0)) for name, text in groups.items()})
        if device.memory_used is not None and device.memory_total is None:
            device = replace(device, memory_total=self.memory)
        return replace(device, power=None) if device.power and device.power > MAX_POWER else device

    def _share(self, card: list[Device]) -> list[Device]:
        """The devices of a card, each with an equal share of its power, which one or all of them show."""
        shown = [device.power for device in card if device.power is not None]
        if self.card == 1 or not shown:
            return card
        return [replace(device, power=statistics.fmean(shown) / len(card)) for device in card]


def make_table(
    tool: MonitorTool, hardware: Hardware, where: Callable[[str], str] = lambda _: "the vendor's file"
) -> Table:
    """Compile a vendor's description, for one of its products.

    Args:
        where: dotted key → the file that set it, for messages.

    Raises:
        ConfigError: there is no command; the expression, one of its groups or a unit is wrong.
    """
    if not (tool.command and tool.command[0]):
        key = "vendor.monitor.command"
        raise ConfigError("the command is empty", where=where(key), key=key, given=list(tool.command))
    pattern = _pattern(tool.parse, where("vendor.monitor.parse"))
    factors: dict[str, float] = {}
    for quantity, unit in tool.units.items():
        if unit not in UNITS.get(quantity, {}):
            allowed = "; ".join(f"{known}: {' | '.join(units)}" for known, units in UNITS.items())
            key = f"vendor.monitor.units.{quantity}"
            raise ConfigError("unknown unit", where=where(key), key=key, given=unit, allowed=allowed)
        factor = UNITS[quantity][unit] or _percent_of_memory(hardware)
        factors |= {figure: factor for figure in DEVICE_FIGURES if figure.startswith(quantity)}
    card = hardware.devices_per_card if tool.power_of == "card" else 1
    memory = 100 * _percent_of_memory(hardware) if tool.units.get("memory") == "%" else None
    return Table(pattern, factors, card, memory)


def _pattern(text: str, where: str) -> re.Pattern[str]:
    key = "vendor.monitor.parse"
    try:
        pattern = re.compile(text, re.VERBOSE | re.MULTILINE)
    except re.error as error:
        raise ConfigError(f"not a regular expression: {error}", where=where, key=key, given=text) from error
    for name in pattern.groupindex:
        if name not in DEVICE_FIGURES:
            raise ConfigError("unknown group", where=where, key=key, given=name, advice=nearest(name, DEVICE_FIGURES))
    if not pattern.groupindex:
        raise ConfigError("the expression has no group", where=where, key=key, allowed=", ".join(DEVICE_FIGURES))
    return pattern


def _percent_of_memory(hardware: Hardware) -> float:
    """MiB of one percent of a device's memory; NaN when the hardware's file does not say how much there is."""
    return math.nan if hardware.memory_gib is None else hardware.memory_gib * 1024 / 100


def _number(text: str | None, factor: float) -> float | None:
    try:
        number = float(text or "") * factor
    except ValueError:
        return None
    return number if math.isfinite(number) else None
