"""FlagPerf's monitor logs, line by line.

    cpu_monitor.log, mem_monitor.log     <time><TAB>fraction
    pwr_monitor.log                      <time><TAB>watts[<TAB>joules counted]
    host_monitor.log                     <time><TAB>3.2load 0.4faults/s 0errors/s 1retransmits/s 2400MHz
    <vendor>_monitor.log                 <time>
                                         31C 57W 15MiB 40536MiB 0%[ joules countedJ][ clockMHz][ flagsthrottle]
                                         … one line a device, then an empty line

<time> is 2025-01-31-14:05:09+0100: FlagPerf's local time, and its offset from UTC. FlagPerf and older versions wrote no
offset. Then the ranks' logs beside the log reveal it, for their times are in UTC.

An unknown figure is N/A. Each other figure is as the tool printed it, also an impossible one: readers of a log leave
impossible figures out. A monitor that has no figures says once `<time><TAB>not available: <why>`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from flagperf.contract.log_lines import LONGEST, Lines
from flagperf.contract.perflog import parse
from flagperf.contract.regular import log_text

SUFFIX = "_monitor.log"
NOT_AVAILABLE = "not available: "
STAMP = "%Y-%m-%d-%H:%M:%S"  # time of the node's clock, in the launcher's time zone
OFFSET = "%z"  # of that time zone from UTC, follows STAMP
QUARTER = 900  # seconds; time zones differ by whole quarters of an hour
DAY = 86400
_WITHOUT_OFFSET = re.compile(r"^\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d(?=\s|$)", re.MULTILINE | re.ASCII)
_RANK_LOG = re.compile(r"rank(\d+)\.out\.log")
UNKNOWN = "N/A"


@dataclass(frozen=True)
class Figure:
    """A figure that a monitor records."""

    unit: str  # in the log; empty: a fraction
    title: str = ""  # in a report; empty: no report shows it
    shown: str = ""  # its unit in a report
    factor: float = 1.0  # from the log's unit to the report's
    counter: bool = False  # it grows since some moment in the past, and has no mean
    extra: bool = False  # FlagPerf's lines have no word for it: a line holds it only where it is known
    flags: bool = False  # the sum of some of THROTTLE
    low: float = 0.0  # in the log's unit: a value below …
    high: float = math.inf  # … or above is no figure but a fault of the device or its tool

    def can_be(self, value: float) -> bool:
        """Whether a device can have this value."""
        return self.low <= value <= self.high

    def text(self, value: float) -> str:
        """A value in the unit of a report."""
        if self.flags:
            return throttle_reasons(value)
        return f"{round(value * self.factor, 2):.4g}"


THROTTLE = {1: "power", 2: "temperature", 4: "hardware"}  # why an accelerator lowers its clock


def throttle_reasons(flags: float) -> str:
    """The reasons by name: "power, temperature"; "none" where the clock is not lowered."""
    return ", ".join(name for flag, name in THROTTLE.items() if int(flags) & flag) or "none"


NODE_FIGURES = {  # monitor → its figure
    "cpu": Figure("", "CPU busy", "%", 100.0, high=1.0),
    "mem": Figure("", "memory used", "%", 100.0, high=1.0),
    "pwr": Figure("W", "power of the node", "W", high=100_000.0),
}
HOST = "host"  # the monitor of HOST_FIGURES
HOST_FIGURES = {  # in the order of a line
    "load": Figure("load", "load of the host"),  # processes that run or wait for a disk, over a minute
    "page_faults": Figure("faults/s", "page faults with disk access", "/s"),
    "network_errors": Figure("errors/s", "network errors", "/s"),  # and dropped packets, of all interfaces
    "retransmits": Figure("retransmits/s", "TCP segments sent again", "/s"),
    "host_clock": Figure("MHz", "clock of the processors", "MHz", high=100_000.0),
}


def _figure(*arguments: Any, **named: Any) -> Any:
    """A field of Device, with its Figure."""
    return field(default=None, metadata={"figure": Figure(*arguments, **named)})


@dataclass(frozen=True)
class Device:
    """The figures of one accelerator; None where the tool gives none. The fields are in the order of a line."""

    temperature: float | None = _figure("C", "accelerator temperature", "°C", low=-60.0, high=200.0)
    power: float | None = _figure("W", "power of the accelerators", "W", high=10_000.0)  # 65535: broken
    memory_used: float | None = _figure("MiB", "accelerator memory used", "GiB", 1 / 1024)
    memory_total: float | None = _figure("MiB")
    # share of the time in which a kernel ran, or the vendor's definition
    utilisation: float | None = _figure("%", "accelerators busy", "%", high=100.0)
    energy: float | None = _figure("J", counter=True, extra=True)
    clock: float | None = _figure("MHz", "accelerator clock", "MHz", high=100_000.0, extra=True)  # of its processors
    throttle: float | None = _figure("throttle", "clock lowered because of", extra=True, flags=True, high=7.0)

    def line(self) -> str:
        """FlagPerf's five words; then the extra figures that are known."""
        values = [(getattr(self, name), figure) for name, figure in DEVICE_FIGURES.items()]
        return " ".join(_word(value, figure.unit) for value, figure in values if value is not None or not figure.extra)

    def possible(self) -> Device:
        """The same without impossible figures: negative ones, or more memory in use than the device has."""
        known = {name: value for name in DEVICE_FIGURES if (value := getattr(self, name)) is not None}
        possible = {name: value for name, value in known.items() if DEVICE_FIGURES[name].can_be(value)}
        if possible.get("memory_used", 0.0) > possible.get("memory_total", math.inf):
            del possible["memory_used"]
        return Device(**possible)


DEVICE_FIGURES: dict[str, Figure] = {entry.name: entry.metadata["figure"] for entry in fields(Device)}


def stamp(seconds: float) -> str:
    """The time of a sample, given in seconds since the epoch, with the offset of the local time zone."""
    return datetime.fromtimestamp(seconds, timezone.utc).astimezone().strftime(STAMP + OFFSET)


def parse_stamp(text: str) -> float | None:
    """Read back what `stamp` wrote; None for any other text. A time without an offset is in the local time zone."""
    for form in (STAMP + OFFSET, STAMP):
        try:
            return datetime.strptime(text, form).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def parse_line(line: str) -> Device | None:
    """Read back what `Device.line` wrote; None for any other line."""
    remaining = iter(DEVICE_FIGURES.items())
    values: dict[str, float | None] = {}
    for word in line.split():
        for name, figure in remaining:
            if word == UNKNOWN:
                values[name] = None
                break
            if match := re.fullmatch(rf"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?){re.escape(figure.unit)}", word, re.ASCII):
                values[name] = float(match[1])
                break
            if not figure.extra:
                return None
        else:
            return None
    needed = {name for name, figure in DEVICE_FIGURES.items() if not figure.extra}
    return Device(**values) if needed <= values.keys() else None


def _word(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{round(value, 1):.15g}{unit}"


def device_blocks(text: str) -> Iterator[tuple[float, list[Device]]]:
    """Seconds since the epoch, and devices in the tool's order, of each block of a vendor's log."""
    for block in text.split("\n\n"):
        stamp, _, lines = block.strip().partition("\n")
        devices = [device for line in lines.splitlines() if (device := parse_line(line))]
        if (time := parse_stamp(stamp)) is not None and devices:
            yield time, devices


def node_samples(text: str) -> Iterator[tuple[float, list[float]]]:
    """Seconds since the epoch, and figures of each sample of cpu, mem or pwr."""
    for line in text.splitlines():
        stamp, *words = line.split("\t")
        time = parse_stamp(stamp)
        try:
            values = [float(word) for word in words]
        except ValueError:  # not available
            continue
        if time is not None and values and all(map(math.isfinite, values)):
            yield time, values


def host_line(figures: Mapping[str, float | None]) -> str:
    """The words of HOST_FIGURES."""
    return " ".join(_word(figures.get(name), figure.unit) for name, figure in HOST_FIGURES.items())


def host_samples(text: str) -> Iterator[tuple[float, dict[str, float]]]:
    """Seconds since the epoch, and the known and possible figures of each sample of the host."""
    for line in text.splitlines():
        stamp, _, words = line.partition("\t")
        time = parse_stamp(stamp)
        figures: dict[str, float] = {}
        for word, (name, figure) in zip(words.split(), HOST_FIGURES.items()):
            match = re.fullmatch(rf"(\d+(?:\.\d+)?(?:e[+-]?\d+)?){re.escape(figure.unit)}", word, re.ASCII)
            if match and figure.can_be(float(match[1])):
                figures[name] = float(match[1])
        if time is not None and figures:
            yield time, figures


def monitor_logs(folder: Path) -> Iterator[tuple[str, str]]:
    """Name of the monitor, and text, of each log in a node's folder. Each time in a text has its offset from UTC."""
    for log in sorted(folder.glob(f"*{SUFFIX}")):
        if text := monitor_log(folder, log.name[: -len(SUFFIX)]):
            yield log.name[: -len(SUFFIX)], text


def monitor_log(folder: Path, name: str) -> str:
    """The text of a monitor's log in a node's folder, as `monitor_logs` yields it; empty where there is no log."""
    path = folder / (name + SUFFIX)
    text = log_text(path)
    if (first := _WITHOUT_OFFSET.search(text)) and (offset := _offset(first[0], folder)):
        return _WITHOUT_OFFSET.sub(lambda stamp: stamp[0] + offset, text)
    return text


def _offset(first: str, folder: Path) -> str:
    """The offset from UTC of the times in a log without offsets, as `stamp` writes it; empty where nothing reveals it.

    Args:
        first: the first time of the log. The monitors start shortly before the ranks of their node.
        folder: of the node; has the logs of its ranks.
    """
    local, began = parse_stamp(f"{first}+0000"), _first_event(folder)
    if local is None or began is None:
        return ""
    ahead = round((local - began) / QUARTER) * QUARTER
    if abs(ahead) >= DAY:
        return ""
    hours, minutes = divmod(abs(ahead) // 60, 60)
    return f"{'-' if ahead < 0 else '+'}{hours:02}{minutes:02}"


def _first_event(folder: Path) -> float | None:
    """The time of the first event of a node's first rank, by the node's clock; None where no rank logged one."""
    numbered = {int(match[1]): path for path in folder.glob("rank*") if (match := _RANK_LOG.fullmatch(path.name))}
    numbered = {rank: path for rank, path in numbered.items() if path.is_file()}  # a pipe would never end
    for _, path in sorted(numbered.items()):
        lines = Lines()
        with path.open("rb") as file:
            for piece in iter(lambda: file.read(LONGEST), b""):
                for line in lines.feed(piece):
                    if (event := parse(line.decode(errors="replace"))) is not None:
                        return event.time_ms / 1000
    return None
