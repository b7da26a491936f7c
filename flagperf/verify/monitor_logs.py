"""Reads the monitor logs of a node. docs/monitors.md defines their formats."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

STAMP = "%Y-%m-%d-%H:%M:%S"  # then the offset from UTC, except in older logs
QUARTER = 900.0  # seconds; time zones differ by whole quarters of an hour
LARGEST = {"cpu": 1.0, "mem": 1.0, "pwr": 100_000.0}  # of a whole node; a value below 0 or above this is ignored
DEVICE = (  # the words of a line: figure, unit in the log, smallest and largest value
    ("temperature", "C", -60.0, 200.0),
    ("power", "W", 0.0, 10_000.0),
    ("memory_used", "MiB", 0.0, math.inf),
    ("memory_total", "MiB", 0.0, math.inf),
    ("utilisation", "%", 0.0, 100.0),
)
EXTRA = (("energy", "J", 0.0, math.inf), ("clock", "MHz", 0.0, 100_000.0))  # optional words at the end of a line


@dataclass(frozen=True)
class Sample:
    """The values at one moment. A sample of a whole node has one entry in `devices`: `value` and `counter`."""

    seconds: float  # since the epoch, by the clock of the node
    devices: tuple[dict[str, float], ...]


def samples(log: Path, began: float) -> list[Sample]:
    """All samples of a log, with times in UTC.

    Args:
        began: time of the first event of the node's first rank, by the node's clock. Older logs have local times
            without an offset. `began` and the first time reveal the time zone.
    """
    text, name = log.read_text(encoding="utf-8", errors="replace"), log.name.removesuffix("_monitor.log")
    clock = _Clock(began)
    return _node_samples(text, clock, LARGEST[name]) if name in LARGEST else _device_samples(text, clock)


@dataclass
class _Clock:
    """Reads the times of a log."""

    began: float  # of the node's first rank
    zone: float | None = None  # seconds, for times without an offset

    def seconds(self, stamp: str) -> float | None:
        """Seconds since the epoch; None where this is no time."""
        with contextlib.suppress(ValueError):
            return datetime.strptime(stamp, f"{STAMP}%z").timestamp()
        try:
            local = datetime.strptime(stamp, STAMP).replace(tzinfo=timezone.utc).timestamp()
        except ValueError:
            return None
        if self.zone is None:
            self.zone = round((local - self.began) / QUARTER) * QUARTER
        return local - self.zone


def _node_samples(text: str, clock: _Clock, largest: float) -> list[Sample]:
    """Read a log of cpu, mem or pwr. Its lines are `<time><TAB>value[<TAB>counter]`."""
    parsed = []
    for line in text.splitlines():
        stamp, *words = line.split("\t")
        seconds = clock.seconds(stamp)
        try:
            values = [float(word) for word in words]
        except ValueError:
            continue
        if seconds is not None and values and all(map(math.isfinite, values)) and 0 <= values[0] <= largest:
            parsed.append(Sample(seconds, (dict(zip(("value", "counter"), values, strict=False)),)))
    return parsed


def _device_samples(text: str, clock: _Clock) -> list[Sample]:
    """Read a vendor's log: one block for each sample, one line for each device. Incomplete blocks are left out."""
    blocks = []
    for block in text.split("\n\n"):
        stamp, _, lines = block.strip().partition("\n")
        devices = [device for line in lines.splitlines() if (device := _device(line)) is not None]
        if (seconds := clock.seconds(stamp)) is not None and devices:
            blocks.append(Sample(seconds, tuple(devices)))
    most = max((len(block.devices) for block in blocks), default=0)
    return [block for block in blocks if len(block.devices) == most]


def _device(line: str) -> dict[str, float] | None:
    """The possible figures of a line; None where the line does not describe a device."""
    words = line.split()
    if len(words) < len(DEVICE):
        return None
    extra = {figure[1]: figure for figure in EXTRA}
    optional = [(word, extra.get(word.lstrip("-+.e0123456789"))) for word in words[len(DEVICE) :]]
    figures = [*zip(words, DEVICE, strict=False), *((word, figure) for word, figure in optional if figure)]
    device: dict[str, float] = {}
    for word, (name, unit, low, high) in figures:
        match = re.fullmatch(rf"(-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?){unit}", word)
        if match is None and word != "N/A":
            return None
        if match is not None and low <= float(match[1]) <= high:
            device[name] = float(match[1])
    if device.get("memory_used", 0.0) > device.get("memory_total", math.inf):
        del device["memory_used"]
    return device
