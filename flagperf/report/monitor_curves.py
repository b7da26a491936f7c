"""The curves in a node's monitor logs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flagperf.monitor_log import device_blocks, parse_stamp

Curve = list[list[float]]  # [seconds since the epoch, value]

NODE_CURVES = {  # monitor → title with unit, factor
    "cpu": ("CPU busy, %", 100.0),
    "mem": ("Memory used, %", 100.0),
    "pwr": ("Power of the node, W", 1.0),
}
DEVICE_CURVES = {  # field of a device → title with unit, factor
    "utilisation": ("Accelerators busy, %", 1.0),
    "memory_used": ("Accelerator memory, GiB", 1 / 1024),
    "power": ("Power of an accelerator, W", 1.0),
    "temperature": ("Accelerator temperature, °C", 1.0),
}


def curves(folder: Path, monitors: Mapping[str, Any]) -> dict[str, Curve]:
    """Title → curve of every figure that a node's monitors logged; of devices, the mean over those of the job.

    Args:
        folder: the node's log folder.
        monitors: what the result says of this node's monitors: which devices the job used.
    """
    found: dict[str, Curve] = {}
    for log in sorted(folder.glob("*_monitor.log")):
        name = log.name.removesuffix("_monitor.log")
        text = log.read_text(encoding="utf-8", errors="replace")
        found |= (
            _node_curve(name, text)
            if name in NODE_CURVES
            else _device_curves(text, monitors.get(name, {}).get("indices"))
        )
    return found


def _node_curve(name: str, text: str) -> dict[str, Curve]:
    title, factor = NODE_CURVES[name]
    points = []
    for line in text.splitlines():
        stamp, *figures = line.split("\t")
        time = parse_stamp(stamp)
        try:
            value = float(figures[0]) if figures else math.nan
        except ValueError:  # "not available: …"
            continue
        if time is not None and math.isfinite(value):
            points.append([time, factor * value])
    return {title: points} if points else {}


def _device_curves(text: str, indices: Sequence[int] | None) -> dict[str, Curve]:
    found: dict[str, Curve] = {}
    for time, devices in device_blocks(text):
        used = [device for index, device in enumerate(devices) if indices is None or index in indices]
        for name, (title, factor) in DEVICE_CURVES.items():
            values = [value for device in used if (value := getattr(device, name)) is not None]
            if values:
                found.setdefault(title, []).append([time, factor * sum(values) / len(values)])
    return found
