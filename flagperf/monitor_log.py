"""FlagPerf's monitor logs, line by line.

    cpu_monitor.log, mem_monitor.log     2025-01-31-14:05:09<TAB>fraction
    pwr_monitor.log                      2025-01-31-14:05:09<TAB>watts[<TAB>joules counted]
    <vendor>_monitor.log                 2025-01-31-14:05:09
                                         31C 57W 15MiB 40536MiB 0%[ joules countedJ]      one line a device
                                         (an empty line)

A figure that is not known is N/A. A monitor that has no figures says once `<time><TAB>not available: <why>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime

NOT_AVAILABLE = "not available: "
STAMP = "%Y-%m-%d-%H:%M:%S"  # local time of the launcher
UNKNOWN = "N/A"
UNITS = ("C", "W", "MiB", "MiB", "%", "J")  # in the order of Device's fields


def stamp(time: float) -> str:
    """The time of a sample, given in seconds since the epoch."""
    return datetime.fromtimestamp(time).strftime(STAMP)


def parse_stamp(text: str) -> float | None:
    """Read back what `stamp` wrote; None for any other text."""
    try:
        return datetime.strptime(text, STAMP).timestamp()
    except ValueError:
        return None


@dataclass(frozen=True)
class Device:
    """What a tool says of one accelerator; None where it does not say it."""

    temperature: float | None = None  # degrees Celsius
    power: float | None = None  # W
    memory_used: float | None = None  # MiB
    memory_total: float | None = None  # MiB
    utilisation: float | None = None  # percent of the time that a kernel ran, or as the vendor defines it
    energy: float | None = None  # J since some moment in the past: a counter

    def line(self) -> str:
        """FlagPerf's five words; a sixth, the energy counter, where there is one."""
        values = [getattr(self, field.name) for field in fields(self)]
        words = [_word(value, unit) for value, unit in zip(values, UNITS, strict=True)]
        return " ".join(words if self.energy is not None else words[:-1])


def parse_line(line: str) -> Device | None:
    """Read back what `Device.line` wrote; None for any other line."""
    words = line.split()
    if not len(UNITS) - 1 <= len(words) <= len(UNITS):
        return None
    values: list[float | None] = []
    for word, unit in zip(words, UNITS, strict=False):
        if word == UNKNOWN:
            values.append(None)
        elif match := re.fullmatch(rf"(-?[\d.]+){re.escape(unit)}", word):
            values.append(float(match[1]))
        else:
            return None
    return Device(*values)


def _word(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{round(value, 1):.15g}{unit}"


def device_blocks(text: str) -> Iterator[tuple[float, list[Device]]]:
    """Seconds since the epoch, and devices in the tool's order, of each block of a vendor's log."""
    for block in text.split("\n\n"):
        stamp, _, lines = block.strip().partition("\n")
        devices = [device for line in lines.splitlines() if (device := parse_line(line))]
        if (time := parse_stamp(stamp)) is not None and devices:
            yield time, devices
