"""Reads the monitor logs of a node. Their formats: docs/monitors.md."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

QUARTER = 900.0  # seconds; time zones differ by whole quarters of an hour
LARGEST = {"cpu": 1.0, "mem": 1.0, "pwr": 100_000.0}  # of a node; what is below 0 or above this is no figure
DEVICE = (  # figure, its unit in the log, and between what it lies: the words of a line
    ("temperature", "C", -60.0, 200.0),
    ("power", "W", 0.0, 10_000.0),
    ("memory_used", "MiB", 0.0, math.inf),
    ("memory_total", "MiB", 0.0, math.inf),
    ("utilisation", "%", 0.0, 100.0),
)
EXTRA = (("energy", "J", 0.0, math.inf), ("clock", "MHz", 0.0, 100_000.0))  # behind them, where the tool tells it


@dataclass(frozen=True)
class Sample:
    """What a monitor said at one moment. That of a node has one entry in `devices`, with `value` and `counter`."""

    seconds: float  # since the epoch, by the clock of the node
    devices: tuple[dict[str, float], ...]


def samples(log: Path, began: float) -> list[Sample]:
    """All samples of a log.

    Args:
        began: when the first rank of the node said its first word, by the node's clock: the log's times are local ones,
            and its first sample tells the time zone.
    """
    text, name = log.read_text(encoding="utf-8", errors="replace"), log.name.removesuffix("_monitor.log")
    found = _of_node(text, LARGEST[name]) if name in LARGEST else _of_devices(text)
    if not found:
        return []
    zone = round((found[0].seconds - began) / QUARTER) * QUARTER
    return [Sample(one.seconds - zone, one.devices) for one in found]


def _of_node(text: str, largest: float) -> list[Sample]:
    """cpu, mem and pwr: `<time><TAB>value[<TAB>counter]`."""
    found = []
    for line in text.splitlines():
        stamp, *words = line.split("\t")
        seconds = _seconds(stamp)
        try:
            values = [float(word) for word in words]
        except ValueError:
            continue
        if seconds is not None and values and all(map(math.isfinite, values)) and 0 <= values[0] <= largest:
            found.append(Sample(seconds, (dict(zip(("value", "counter"), values, strict=False)),)))
    return found


def _of_devices(text: str) -> list[Sample]:
    """A vendor's log: a block a sample, a line a device. Blocks that lack devices are left out."""
    blocks = []
    for block in text.split("\n\n"):
        stamp, _, lines = block.strip().partition("\n")
        devices = [device for line in lines.splitlines() if (device := _device(line)) is not None]
        if (seconds := _seconds(stamp)) is not None and devices:
            blocks.append(Sample(seconds, tuple(devices)))
    most = max((len(block.devices) for block in blocks), default=0)
    return [block for block in blocks if len(block.devices) == most]


def _device(line: str) -> dict[str, float] | None:
    """The figures of a line that can be; None where it is no line of a device."""
    words = line.split()
    if len(words) < len(DEVICE):
        return None
    extra = {figure[1]: figure for figure in EXTRA}
    behind = [(word, extra.get(word.lstrip("-+.e0123456789"))) for word in words[len(DEVICE) :]]
    figures = [*zip(words, DEVICE, strict=False), *((word, figure) for word, figure in behind if figure)]
    found: dict[str, float] = {}
    for word, (name, unit, low, high) in figures:
        match = re.fullmatch(rf"(-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?){unit}", word)
        if match is None and word != "N/A":
            return None
        if match is not None and low <= float(match[1]) <= high:
            found[name] = float(match[1])
    if found.get("memory_used", 0.0) > found.get("memory_total", math.inf):
        del found["memory_used"]
    return found


def _seconds(stamp: str) -> float | None:
    """A local time as if it were UTC."""
    try:
        return datetime.strptime(stamp, "%Y-%m-%d-%H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
