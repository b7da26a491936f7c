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
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flagperf.errors import ConfigError, nearest
from flagperf.monitors.log_format import Device
from flagperf.schema import MonitorTool

FIGURES = ("temperature", "power", "memory_used", "memory_total", "utilisation", "energy")
UNITS = {  # quantity → unit → factor to Device's unit
    "power": {"W": 1.0, "mW": 1e-3},
    "memory": {"MiB": 1.0, "GiB": 1024.0, "KiB": 1 / 1024, "B": 1 / 2**20, "MB": 1e6 / 2**20, "GB": 1e9 / 2**20},
    "utilisation": {"%": 1.0, "fraction": 100.0},
    "energy": {"J": 1.0, "mJ": 1e-3},
}


@dataclass(frozen=True)
class Table:
    """A tool's output as its vendor file describes it. Called with the output of one sample."""

    pattern: re.Pattern[str]
    factors: dict[str, float]  # figure → factor to Device's unit

    def __call__(self, text: str) -> list[str]:
        """One line a device. Raises ValueError when no device can be read."""
        devices = [self._device(match) for match in self.pattern.finditer(text)]
        if not any(device != Device() for device in devices):
            raise ValueError("no device in it")
        return [device.line() for device in devices]

    def _device(self, match: re.Match[str]) -> Device:
        return Device(**{name: _number(text, self.factors.get(name, 1.0)) for name, text in match.groupdict().items()})


def make_table(tool: MonitorTool, vendor: str) -> Table:
    """Compile a vendor's description.

    Raises:
        ConfigError: the expression, one of its groups or a unit is wrong.
    """
    where = f"vendor {vendor}"
    try:
        pattern = re.compile(tool.parse, re.VERBOSE | re.MULTILINE)
    except re.error as error:
        raise ConfigError(
            f"not a regular expression: {error}", where=where, key="vendor.monitor.parse", given=tool.parse
        ) from error
    for name in pattern.groupindex:
        if name not in FIGURES:
            raise ConfigError(
                "unknown group", where=where, key="vendor.monitor.parse", given=name, advice=nearest(name, FIGURES)
            )
    if not pattern.groupindex:
        raise ConfigError(
            "the expression has no group", where=where, key="vendor.monitor.parse", allowed=", ".join(FIGURES)
        )
    factors: dict[str, float] = {}
    for quantity, unit in tool.units.items():
        if unit not in UNITS.get(quantity, {}):
            allowed = "; ".join(f"{known}: {' | '.join(units)}" for known, units in UNITS.items())
            raise ConfigError(
                "unknown unit", where=where, key=f"vendor.monitor.units.{quantity}", given=unit, allowed=allowed
            )
        factors |= {figure: UNITS[quantity][unit] for figure in FIGURES if figure.startswith(quantity)}
    return Table(pattern, factors)


def _number(text: str | None, factor: float) -> float | None:
    try:
        return float(text or "") * factor
    except ValueError:
        return None
